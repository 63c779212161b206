"""The file that remembers published volumes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.volumes.core.publish import Bind, Published, published
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_tuning.frameworks.pod_hints import FrameworkSource, PodHints
from tests.fakes.volumes import DIGEST, UID, FakeVersions, publish_request
from tests.support.cases import cases


def record(pod: str = "trainer-0") -> Published:
    return published(publish_request(pod), Bind(UID, DIGEST, FakeVersions().add(complete=False)), MountMode.OVERLAY)


def test_a_record_survives_a_restart(tmp_path: Path) -> None:
    MountTable(tmp_path / "mounts.json").put(record())
    assert MountTable(tmp_path / "mounts.json").all() == (record(),)


def test_a_pods_hints_survive_a_restart(tmp_path: Path) -> None:
    hints = PodHints("pytorch", FrameworkSource.IMAGE, batch_size=32, gpus=1, job="resnet")
    hinted = replace(record(), request=replace(record().request, hints=hints))
    MountTable(tmp_path / "mounts.json").put(hinted)
    assert MountTable(tmp_path / "mounts.json").all() == (hinted,)


def test_a_scratch_size_survives_a_restart_and_is_no_field_for_older_releases(tmp_path: Path) -> None:
    written = replace(record(), request=replace(record().request, scratch_bytes=2**30))
    MountTable(tmp_path / "mounts.json").put(written)
    assert MountTable(tmp_path / "mounts.json").all() == (written,)
    assert "scratch_bytes" not in (tmp_path / "mounts.json").read_text()


def test_a_pods_user_namespace_survives_a_restart_and_is_no_field_for_older_releases(tmp_path: Path) -> None:
    mapped = replace(record(), request=replace(record().request, user_namespace=True))
    MountTable(tmp_path / "mounts.json").put(mapped)
    assert MountTable(tmp_path / "mounts.json").all() == (mapped,)
    assert "user_namespace" not in (tmp_path / "mounts.json").read_text()


def test_what_an_agent_before_hints_remembered_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mounts.json"
    MountTable(path).put(record())
    wire = json.loads(path.read_text())
    del wire["mounts"][0]["request"]["hints"]
    path.write_text(json.dumps(wire))
    assert MountTable(path).all() == (record(),)


def test_what_an_agent_before_overlays_remembered_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mounts.json"
    MountTable(path).put(record())
    wire = json.loads(path.read_text())
    del wire["mounts"][0]["overlay"]
    path.write_text(json.dumps(wire))
    assert MountTable(path).all() == (replace(record(), overlay=False),)


def test_a_removed_record_is_gone_after_a_restart(tmp_path: Path) -> None:
    table = MountTable(tmp_path / "mounts.json")
    table.put(record("a"))
    table.put(record("b"))
    table.remove(record("a").request.target)
    assert MountTable(tmp_path / "mounts.json").all() == (record("b"),)


def test_putting_a_target_again_replaces_it(tmp_path: Path) -> None:
    table = MountTable(tmp_path / "mounts.json")
    for _ in range(2):
        table.put(record())
    assert len(table.all()) == 1


def test_unknown_fields_of_a_later_release_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "mounts.json"
    MountTable(path).put(record())
    wire = json.loads(path.read_text())
    wire["mounts"][0] |= {"pages": True}
    wire["mounts"][0]["request"] |= {"pages": True}
    path.write_text(json.dumps(wire | {"format": 2, "minReader": 1, "more": {}}))
    assert MountTable(path).all() == (record(),)


@pytest.mark.expected_logs("1 of its 2 rows cannot be read")
@cases("change", {"mode": "erofs"}, {"uid": 7}, {"request": 5}, {"request": {}}, {"folder": None}, {"files": "many"})
def test_a_row_that_cannot_be_read_costs_only_itself(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "mounts.json"
    for pod in ("a", "b"):
        MountTable(path).put(record(pod))
    wire = json.loads(path.read_text())
    wire["mounts"][0] |= change
    path.write_text(json.dumps(wire))
    assert MountTable(path).all() == (record("b"),)
    assert (tmp_path / "mounts.unreadable").read_text() == path.read_text()


@cases("content", "", "{", "[]", '{"format": 99, "mounts": []}', '{"format": 1, "minReader": 2, "mounts": []}')
@pytest.mark.expected_logs("is damaged")
def test_an_unreadable_file_is_kept_aside_and_the_table_starts_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "mounts.json").write_text(content)
    assert MountTable(tmp_path / "mounts.json").all() == ()
    assert (tmp_path / "mounts.unreadable").read_text() == content


def test_a_disk_that_refuses_does_not_change_what_is_remembered(tmp_path: Path) -> None:
    table = MountTable(tmp_path / "mounts.json")
    table.put(record("a"))
    (tmp_path / "mounts.json.new").mkdir()  # prevents a file of this name
    with pytest.raises(OSError, match=r"mounts\.json\.new"):
        table.put(record("b"))
    assert table.all() == (record("a"),)

"""stoker support-bundle: its files, without planted secrets, within its bounds, and what it leaves out."""

import asyncio
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import click.testing
import pytest

from stoker_cli.errors import CliError
from stoker_cli.main import main
from stoker_cli.support import commands
from stoker_cli.support.bundle import contents
from stoker_cli.support.bundle.contents import BundleFiles, write_archive
from stoker_cli.support.commands import collect
from stoker_cli.support.facts import DATASET_EVENTS, HERE, READS, ClusterRead
from stoker_kube.errors import Invalid
from stoker_kube.resources import DATASETS, EVENTS, NODE_CACHES, PODS, SECRETS
from tests.unit.stoker_cli.builders import connect_to
from tests.unit.stoker_cli.support.sick_clusters import RELEASE, SickCluster, condition, labels

PLANTED = "hunter2-planted"
_LOG = "stoker-operator-1/operator"


def with_secrets() -> SickCluster:
    """Return a cluster with a planted credential in every place that a bundle reads."""
    cluster, url = SickCluster(), f"https://bucket/key?X-Amz-Signature={PLANTED}"
    container = {"name": "operator", "args": [PLANTED], "env": [{"name": "DB", "value": PLANTED}]}
    cluster.one(PODS)["spec"]["containers"] = [container]
    cluster.one(PODS)["metadata"]["annotations"] = {"vault/secret": PLANTED}
    cluster.one(PODS)["status"]["containerStatuses"][0] |= {"restartCount": 1}
    cluster.one(DATASETS)["status"]["conditions"] = [condition("Listed", "False", message=f"403 of {url}")]
    cluster.one(NODE_CACHES)["status"]["cacheFolders"][0] |= {"healthy": False, "message": f"token={PLANTED}"}
    involved = {"kind": "Dataset", "name": "imagenet"}
    event = {"metadata": {"name": "e", "namespace": "vision"}, "involvedObject": involved, "message": url}
    cluster.objects[EVENTS].append(event)
    log = f"start\nAuthorization: Bearer {PLANTED}\nAWS_SECRET_ACCESS_KEY={PLANTED}\nend\n".encode()
    cluster.logs = {_LOG: log, f"{_LOG}/previous": log}
    cluster.answer = Invalid(422, "Invalid", f"refused with password: {PLANTED}")
    return cluster


def files(cluster: SickCluster, **options: bool) -> BundleFiles:
    return asyncio.run(collect(cluster, "vision", **options))


def test_no_planted_secret_is_in_any_file() -> None:
    found = [path for path, content in files(with_secrets()).files.items() if PLANTED in content.decode()]
    assert found == []


@pytest.mark.parametrize("read", [*READS, DATASET_EVENTS], ids=lambda read: read.kind.plural)
def test_no_secret_planted_in_an_object_is_in_any_file(read: ClusterRead) -> None:
    cluster = SickCluster()
    container = {"name": "c", "command": [PLANTED], "env": [{"name": "DB", "value": PLANTED}]}
    planted: dict[str, Any] = {"note": f"token={PLANTED}", "template": {"spec": {"containers": [container]}}}
    namespace = RELEASE if read.namespace == HERE else read.namespace
    metadata: dict[str, Any] = {"name": "planted", "namespace": namespace, "labels": labels("operator")}
    metadata |= {"annotations": {"vault/x": PLANTED}, "managedFields": [{"manager": PLANTED}]}
    item: dict[str, Any] = {"metadata": metadata, "status": planted, "spec": planted | {"versions": []}}
    item |= {"data": {"k": PLANTED}, "involvedObject": {"kind": "Dataset"}}
    cluster.objects.setdefault(read.kind, []).append(item)
    texts = {path: content.decode() for path, content in files(cluster).files.items()}
    assert [path for path, text in texts.items() if PLANTED in text] == []
    assert any('"planted"' in text for text in texts.values())


def test_no_secret_is_read() -> None:
    cluster = SickCluster()
    files(cluster)
    assert SECRETS not in cluster.asked


def test_it_holds_objects_logs_and_findings() -> None:
    found = set(files(with_secrets()).files)
    logs = {f"logs/{_LOG}.log", f"logs/{_LOG}.previous.log"}
    objects = {f"objects/{name}.json" for name in ("datasets", "nodecaches", "pods", "events", "nodes")}
    assert logs | objects | {"README.txt", "versions.json", "doctor.txt", "doctor.json", "left-out.json"} <= found


def test_events_of_datasets_in_other_namespaces_are_included() -> None:
    events = json.loads(files(with_secrets()).files["objects/events.json"])
    assert [each["involvedObject"]["name"] for each in events] == ["imagenet"]


def test_without_logs_it_has_none() -> None:
    assert not [path for path in files(with_secrets(), logs=False).files if path.startswith("logs/")]


def test_what_could_not_be_read_is_listed() -> None:
    cluster = SickCluster()
    cluster.forbidden.add(DATASETS)
    left = json.loads(files(cluster).files["left-out.json"])
    assert "you may not list datasets" in left["unread"][0]
    assert any(f"log of {RELEASE}/stoker-sidecar-1" in each for each in left["leftOut"])


def test_objects_with_findings_have_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = BundleFiles()
    items = [{"metadata": {"name": name}, "text": "x" * 40} for name in ("a", "b", "c")]
    monkeypatch.setattr(contents, "MOST_OBJECTS", 100)
    bundle.add_objects("objects/nodes.json", items, frozenset({"c"}))
    assert [each["metadata"]["name"] for each in json.loads(bundle.files["objects/nodes.json"])] == ["c"]
    assert bundle.left_out == ["objects/nodes.json: 2 of 3 objects"]


def test_files_beyond_the_bound_are_left_out() -> None:
    bundle = BundleFiles(most=10)
    bundle.add("a", b"x" * 8)
    bundle.add("b", b"x" * 8)
    assert (list(bundle.files), bundle.left_out) == (["a"], ["b: no room for 8 bytes"])


def test_the_archive_is_for_its_owner_alone(tmp_path: Path) -> None:
    write_archive(tmp_path / "b.tar.gz", "b", {"x/y.txt": b"text"}, 0)
    assert stat.S_IMODE((tmp_path / "b.tar.gz").stat().st_mode) == 0o600
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        content = archive.extractfile("b/x/y.txt")
        assert content is not None
        assert content.read() == b"text"


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("mine")
    with pytest.raises(CliError, match="exists: name another file"):
        write_archive(tmp_path / "b.tar.gz", "b", {}, 0)
    assert (tmp_path / "b.tar.gz").read_text() == "mine"


def test_the_command_prints_the_file_and_tells_its_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connect_to(monkeypatch, with_secrets(), commands, name="connect_client")
    path = str(tmp_path / "b.tar.gz")
    result = click.testing.CliRunner().invoke(main, ["support-bundle", "-n", "vision", "-o", path])
    assert (result.exit_code, result.stdout) == (0, f"{path}\n")
    assert "Reading log 1 of 3" in result.stderr

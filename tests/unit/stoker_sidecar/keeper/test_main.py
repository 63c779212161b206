"""Preparations of the keeper: its folders, and the OOM killer, with a folder as its cgroup."""

import logging
from pathlib import Path

import pytest

from stoker_sidecar.keeper.main import end_one_process_at_a_time, prepare_folders
from stoker_sidecar.keeper.settings import parse


@pytest.mark.parametrize("is_node", [True, False])
def test_no_other_user_of_the_node_has_a_way_into_caches_and_mounts(tmp_path: Path, is_node: bool) -> None:
    folders = {name: tmp_path / name for name in ("run", "mnt", "cache")}
    for folder in folders.values():
        folder.mkdir(mode=0o755)
    options = [f"--run-dir={folders['run']}", f"--mount-root={folders['mnt']}", f"--cache-root={folders['cache']}"]
    state = [f"--state-dir={tmp_path}"] if is_node else []
    prepare_folders(parse([*options, "--run-as=", *state], {}))
    modes = {name: folder.stat().st_mode & 0o7777 for name, folder in folders.items()}
    assert modes == {"run": 0o1770, "mnt": 0o700 if is_node else 0o755, "cache": 0o700}


def test_the_container_is_not_killed_as_a_group(tmp_path: Path) -> None:
    (tmp_path / "memory.oom.group").write_text("1")
    end_one_process_at_a_time(tmp_path)
    assert (tmp_path / "memory.oom.group").read_text() == "0"


def test_a_cgroup_without_groups_is_left_alone(tmp_path: Path) -> None:
    end_one_process_at_a_time(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.expected_logs("out of memory ends the whole sidecar")
def test_a_cgroup_that_refuses_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "memory.oom.group").mkdir()  # acts as a read-only file, since root could write to a real one
    with caplog.at_level(logging.WARNING):
        end_one_process_at_a_time(tmp_path)
    assert "out of memory ends the whole sidecar" in caplog.text

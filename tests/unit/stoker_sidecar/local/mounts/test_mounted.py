"""Mounts as seen by `stoker umount`: their notes, and the keeper process if no keeper listens."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import MountRefused
from stoker_sidecar.local.mounts.mount_paths import HomePaths, RunPaths
from stoker_sidecar.local.mounts.mount_spec import MountSpec
from stoker_sidecar.local.mounts.mounted import FoundMount, all_mounted, lock
from tests.support.waiting import wait_until


def mount_in(folder: Path, run: str = "run") -> FoundMount:
    return FoundMount(folder / "data", HomePaths(folder / "home"), RunPaths(folder / run))


@contextmanager
def silent_keeper(mount: FoundMount, *, leads: bool = True) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a process with a keeper's arguments that never listens. ``leads``: it leads a session, like keepers."""
    words = ["-m", "stoker_sidecar.keeper.main", "--run-dir", str(mount.run.folder), "--run-as", ""]
    program = [sys.executable, "-c", "import signal; signal.pause()", *words]
    with subprocess.Popen(program, start_new_session=leads) as process:
        try:
            # Popen returns a moment before the kernel shows the arguments of the new program.
            wait_until(lambda: b"keeper.main" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
            yield process
        finally:
            process.kill()


def test_a_keeper_that_does_not_listen_is_known_by_its_command_line(tmp_path: Path) -> None:
    mount = mount_in(tmp_path)
    with silent_keeper(mount) as keeper:
        assert mount.pid() == keeper.pid
    assert mount.pid() is None


def test_the_keeper_of_a_run_folder_with_a_longer_name_is_another(tmp_path: Path) -> None:
    with silent_keeper(mount_in(tmp_path, "run2")):
        assert mount_in(tmp_path).pid() is None


def test_what_a_keeper_has_just_forked_is_no_keeper(tmp_path: Path) -> None:
    mount = mount_in(tmp_path)
    with silent_keeper(mount, leads=False):
        assert mount.pid() is None


def test_the_end_of_a_mount_is_that_of_a_keeper_that_does_not_listen(tmp_path: Path) -> None:
    mount = mount_in(tmp_path)
    with silent_keeper(mount) as keeper:
        mount.end()
        assert keeper.poll() is not None


def test_what_the_command_noted_of_a_mount_is_read_without_its_models(tmp_path: Path) -> None:
    mount = mount_in(tmp_path, "runs/run")
    spec = MountSpec(source=Source(uri="s3://bucket"), folder=mount.folder, home=mount.home.folder)
    for note in (mount.run.spec, mount.home.lock):
        note.parent.mkdir(parents=True)
        note.write_text(spec.model_dump_json(by_alias=True))
    assert all_mounted(tmp_path / "runs") == [mount]
    with_lock = lock(mount.home)
    try:
        with pytest.raises(MountRefused, match=f"s3://bucket is mounted at {mount.folder} already"):
            lock(mount.home)
    finally:
        os.close(with_lock)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"source": {"uri": "s3://b"}, "folder": "data", "home": "/home"}'])
def test_a_note_that_is_none_is_passed_over(text: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/spec.json").write_text(text)
    assert all_mounted(tmp_path) == []

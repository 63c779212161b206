"""Which process is a mount's keeper, where nobody listens at its socket."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker_api.dataset_source import Source
from stoker_sidecar.local.mount_spec import MountSpec, RunPaths
from stoker_sidecar.local.session import MountSession
from tests.support.waiting import wait_until


def session_in(folder: Path, run: str = "run") -> MountSession:
    spec = MountSpec(source=Source(uri="s3://bucket"), folder=folder / "data", home=folder / "home")
    return MountSession(spec, RunPaths(folder / run))


@contextmanager
def silent_keeper(session: MountSession, *, leads: bool = True) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a process with a keeper's words that never listens. ``leads``: it leads a session, as keepers do."""
    words = ["-m", "stoker_sidecar.keeper.main", "--run-dir", str(session.run.folder), "--run-as", ""]
    program = [sys.executable, "-c", "import signal; signal.pause()", *words]
    with subprocess.Popen(program, start_new_session=leads) as process:
        try:
            # Popen returns a moment before the kernel shows the new program's words.
            wait_until(lambda: b"keeper.main" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
            yield process
        finally:
            process.kill()


def test_a_keeper_that_does_not_listen_is_known_by_its_command_line(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    with silent_keeper(session) as keeper:
        assert session.pid() == keeper.pid
    assert session.pid() is None


def test_the_keeper_of_a_run_folder_with_a_longer_name_is_another(tmp_path: Path) -> None:
    with silent_keeper(session_in(tmp_path, "run2")):
        assert session_in(tmp_path).pid() is None


def test_what_a_keeper_has_just_forked_is_no_keeper(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    with silent_keeper(session, leads=False):
        assert session.pid() is None


def test_the_end_of_a_mount_is_that_of_a_keeper_that_does_not_listen(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    with silent_keeper(session) as keeper:
        session.end()
        assert keeper.poll() is not None

"""The keeper as a process: dead processes are restarted, and no process is left behind."""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_sidecar.linux.mounts.mount_calls import detach
from stoker_sidecar.wire.fetcher_protocol import Read, ReadDone
from tests.fakes.read_fetcher import FetcherForReads
from tests.support.keeper import SECONDS, Keeper, mounts_below
from tests.support.mount_namespace import own_mounts_with
from tests.support.readers import VerifyingReaders
from tests.support.versions import VersionFolder, small_files
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
_KILLS = 5


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with Keeper(tmp_path / "k") as running:
        yield running


@pytest.fixture
def version(tmp_path: Path) -> VersionFolder:
    return VersionFolder(tmp_path / "v", small_files())


@pytest.fixture
def small_memory() -> Iterator[Path]:
    """Make a memory cgroup in which almost no memory can be allocated."""
    root = Path("/sys/fs/cgroup/memory")
    if not root.is_dir():
        root = Path("/sys/fs/cgroup")
    group = root / f"stoker-test-{os.getpid()}"
    try:
        group.mkdir()
        limit = next(group / name for name in ("memory.limit_in_bytes", "memory.max") if (group / name).exists())
        limit.write_text("65536")
    except (OSError, StopIteration) as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no memory cgroup can be made here: {error!r}")
    yield group
    wait_until(lambda: (group / "cgroup.procs").read_text() == "")
    group.rmdir()


def _child(name: str, log: Path) -> str:
    """Return a command that writes its name to ``log`` when it starts and when SIGTERM ends it."""
    program = (
        "import signal, sys\n"
        "def say(what):\n"
        f"    with open({str(log)!r}, 'a') as log: log.write({name!r} + ' ' + what + '\\n')\n"
        "def end(*_):\n"
        "    say('ends'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "say('starts')\n"
        "while True: signal.pause()\n"
    )
    return shlex.join([sys.executable, "-c", program])


def test_it_serves_a_node_with_a_mount_whose_path_is_not_utf_8(tmp_path: Path, version: VersionFolder) -> None:
    odd = os.fsdecode(b"caf\xe9\r\n")
    with Keeper(tmp_path / "k", within=own_mounts_with(tmp_path / odd)) as keeper:
        keeper.serve(version)
        assert keeper.server()["ready"]


def test_no_read_fails_while_the_server_is_killed_again_and_again(keeper: Keeper, version: VersionFolder) -> None:
    version.finish_all()
    with VerifyingReaders(keeper.serve(version), version.files) as readers:
        for _ in range(_KILLS):
            before = readers.reads
            keeper.kill_server()
            readers.wait_for(20, since=before)
    assert readers.wrong == []
    assert keeper.server()["restarts"] == _KILLS


def test_a_server_that_the_kernel_kills_for_its_memory_is_replaced(
    keeper: Keeper, version: VersionFolder, small_memory: Path
) -> None:
    version.finish_all()
    mountpoint = keeper.serve(version)
    (small_memory / "cgroup.procs").write_text(str(keeper.server()["pid"]))
    assert all((mountpoint / path).read_bytes() == data for path, data in version.files.items())
    assert keeper.server()["restarts"] == 1


def test_a_server_that_hangs_is_replaced(keeper: Keeper, version: VersionFolder) -> None:
    version.finish_all()
    mountpoint = keeper.serve(version)
    os.kill(keeper.server()["pid"], signal.SIGSTOP)
    assert (mountpoint / "d2/59").read_bytes() == version.files["d2/59"]
    assert keeper.server()["restarts"] == 1


def test_without_its_zygote_a_server_comes_back_all_the_same(keeper: Keeper, version: VersionFolder) -> None:
    version.finish_all()
    mountpoint = keeper.serve(version)
    for pid in keeper.pids():
        os.kill(pid, signal.SIGKILL)
    assert (mountpoint / "d2/59").read_bytes() == version.files["d2/59"]


def test_a_zygote_that_hangs_is_replaced(keeper: Keeper, version: VersionFolder) -> None:
    version.finish_all()
    os.kill(keeper.zygote(), signal.SIGSTOP)
    assert (keeper.serve(version) / "d2/59").read_bytes() == version.files["d2/59"]


def test_a_read_that_waits_for_the_fetcher_outlives_its_server(keeper: Keeper, version: VersionFolder) -> None:
    path = "d2/59"
    may_answer = threading.Event()

    def bring(request: Read) -> ReadDone:
        may_answer.wait(SECONDS)
        return ReadDone("parts", version.put_part(path, request.offset, request.length))

    read: list[bytes] = []
    with FetcherForReads(keeper.run_dir / "fetcher.sock", bring) as fetcher:
        mountpoint = keeper.serve(version)
        reader = threading.Thread(target=lambda: read.append((mountpoint / path).read_bytes()))
        reader.start()
        wait_until(lambda: len(fetcher.asked) > 0)
        asked = len(fetcher.asked)
        keeper.kill_server()
        wait_until(lambda: len(fetcher.asked) > asked)
        may_answer.set()
        reader.join(SECONDS)
    assert read == [version.files[path]]


def test_an_open_file_goes_on_in_the_next_server(keeper: Keeper, version: VersionFolder) -> None:
    version.finish_all()
    with (keeper.serve(version) / "d2/59").open("rb", buffering=0) as file:
        start = file.read(4096)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        keeper.kill_server()
        assert start + (file.read() or b"") == version.files["d2/59"]


def test_a_mount_that_someone_took_away_is_made_anew(keeper: Keeper, version: VersionFolder) -> None:
    version.finish_all()
    mountpoint = keeper.serve(version)
    detach(str(mountpoint))
    wait_until(lambda: len(mounts_below(mountpoint)) == 1 and keeper.server()["ready"])
    assert (mountpoint / "d0/0").read_bytes() == version.files["d0/0"]


def test_serving_twice_is_serving_once(keeper: Keeper, version: VersionFolder) -> None:
    assert keeper.serve(version) == keeper.serve(version)
    assert len(mounts_below(keeper.folder)) == 1


def test_release_leaves_no_mount_no_server_and_no_folder(keeper: Keeper, version: VersionFolder) -> None:
    mountpoint = keeper.serve(version)
    pid = keeper.server()["pid"]
    assert keeper.release(version)["ok"]
    assert mounts_below(keeper.folder) == []
    assert not Path(f"/proc/{pid}").exists()
    assert not mountpoint.parent.exists()


def test_release_of_what_is_not_served_is_fine(keeper: Keeper, version: VersionFolder) -> None:
    assert keeper.release(version)["ok"]


def test_a_server_that_cannot_start_is_told_and_leaves_no_mount(keeper: Keeper, version: VersionFolder) -> None:
    version.manifest.write_bytes(b"not a manifest")
    with pytest.raises(RuntimeError, match="does not come up"):
        keeper.serve(version)
    assert mounts_below(keeper.folder) == []
    assert "is damaged" in keeper.log.read_text()


def test_an_unknown_request_is_answered_with_a_sentence_and_its_id(keeper: Keeper) -> None:
    reply = keeper.call(id=7, op="dance")
    assert reply == {"id": 7, "ok": False, "message": "op 'dance' is not known: use serve, release or list"}


def test_children_that_are_killed_are_started_again(tmp_path: Path) -> None:
    log = tmp_path / "children.log"
    with Keeper(tmp_path / "k", agent=_child("agent", log), fetcher=_child("fetcher", log)) as keeper:
        # Both first: they start at once, and a fetcher may write its first line after an agent's second.
        wait_until(lambda: {"agent starts", "fetcher starts"} <= set(_lines(log)))
        row = next(row for row in keeper.call(op="list")["children"] if row["name"] == "agent")
        os.kill(row["pid"], signal.SIGKILL)
        wait_until(lambda: _lines(log).count("agent starts") == 2)
    assert _lines(log).count("fetcher starts") == 1


def test_sigterm_ends_the_agent_before_the_fetcher_and_takes_the_mounts_away(
    tmp_path: Path, version: VersionFolder
) -> None:
    log = tmp_path / "children.log"
    with Keeper(tmp_path / "k", agent=_child("agent", log), fetcher=_child("fetcher", log)) as keeper:
        wait_until(lambda: len(_lines(log)) == 2)
        keeper.serve(version)
        assert keeper.stop() == 0
        assert _lines(log)[2:] == ["agent ends", "fetcher ends"]
        assert mounts_below(keeper.folder) == []


def test_on_exit_keep_leaves_the_mount_points_to_the_next_keeper(tmp_path: Path, version: VersionFolder) -> None:
    with Keeper(tmp_path / "k", options=["--on-exit", "keep"]) as keeper:
        keeper.serve(version)
        assert keeper.stop() == 0
        assert len(mounts_below(keeper.folder)) == 1


def test_a_killed_keeper_leaves_dead_mounts_that_the_next_one_clears(keeper: Keeper, version: VersionFolder) -> None:
    version.finish_all()
    mountpoint = keeper.serve(version)
    keeper.kill()
    assert len(mounts_below(keeper.folder)) == 1
    with pytest.raises(OSError, match="not connected"):
        mountpoint.stat()
    keeper.start()
    assert mounts_below(keeper.folder) == []
    assert (keeper.serve(version) / "d0/0").read_bytes() == version.files["d0/0"]


def test_the_keepers_socket_is_its_users_alone(keeper: Keeper) -> None:
    assert (keeper.run_dir / "keeper.sock").stat().st_mode & 0o777 == 0o600


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []

"""A keeper that ends without a successor leaves its mounts to the holder, and the next keeper takes them over."""

import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.keeper import Keeper, clear_mounts, mounts_below
from tests.support.readers import VerifyingReaders
from tests.support.versions import VersionFolder, small_files
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
_ENDS = 4


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "node"
    folder.mkdir()
    yield folder
    clear_mounts(folder)


@pytest.fixture
def version(tmp_path: Path) -> VersionFolder:
    made = VersionFolder(tmp_path / "v", small_files())
    made.finish_all()
    return made


def socket_of(node: Path) -> Path:
    return node / "holder.sock"


@contextmanager
def holder(node: Path, seconds: float = 600) -> Iterator[subprocess.Popen[bytes]]:
    """Run a holder that is killed at the end."""
    command = [sys.executable, "-m", "stoker_sidecar.keeper.holder", "--socket", str(socket_of(node))]
    with subprocess.Popen([*command, "--seconds", str(seconds)]) as process:
        try:
            wait_until(socket_of(node).exists)
            yield process
        finally:
            process.kill()


def keeper(node: Path, folder: Path) -> Keeper:
    return Keeper(folder, node=node, options=["--holder-socket", str(socket_of(node))])


def holds(process: subprocess.Popen[bytes], count: int = 1) -> bool:
    """Return True if the holder has this number of FUSE descriptors."""
    found = []
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed after the folder was listed
            found.append(str(link.readlink()))
    return found.count("/dev/fuse") == count


@pytest.mark.parametrize("end", [Keeper.stop, Keeper.kill], ids=["a deleted pod", "a killed pod"])
def test_no_read_fails_while_a_keeper_ends_and_the_next_one_starts(
    node: Path, tmp_path: Path, version: VersionFolder, end: object
) -> None:
    assert callable(end)
    with holder(node) as process:
        first = keeper(node, tmp_path / "0")
        first.start()
        mountpoint = first.serve(version)
        before = mounts_below(node)
        with VerifyingReaders(mountpoint, version.files) as readers:
            # After the first close, the kernel sends no FLUSH. Until then, a fork of this process would wait for one:
            # the fork is the next keeper, it closes the readers' files, and no other keeper answers.
            readers.wait_for(0, since=0)
            for number in range(1, _ENDS + 1):
                wait_until(lambda: holds(process))
                end(first)
                first = keeper(node, tmp_path / str(number))
                first.start()
                readers.wait_for(4, since=readers.reads)
        assert readers.wrong == []
        assert mounts_below(node) == before
        first.kill()


def test_readers_get_an_error_when_no_keeper_comes_in_time(node: Path, tmp_path: Path, version: VersionFolder) -> None:
    with holder(node, seconds=1) as process, keeper(node, tmp_path / "a") as only:
        mountpoint = only.serve(version)
        wait_until(lambda: holds(process))
        only.kill()
        with pytest.raises(OSError) as caught:  # noqa: PT011 -- the number is checked below
            (mountpoint / "d2/59").read_bytes()
        assert caught.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)


def test_a_holder_that_starts_again_is_given_the_mounts(node: Path, tmp_path: Path, version: VersionFolder) -> None:
    with keeper(node, tmp_path / "a") as older:
        mountpoint = older.serve(version)
        for _ in range(2):
            with holder(node) as process:
                wait_until(lambda process=process: holds(process))  # type: ignore[misc]
            assert (mountpoint / "d2/59").read_bytes() == version.files["d2/59"]


def test_a_released_mount_is_not_held(node: Path, tmp_path: Path, version: VersionFolder) -> None:
    with holder(node) as process, keeper(node, tmp_path / "a") as only:
        only.serve(version)
        wait_until(lambda: holds(process))
        only.release(version)
        wait_until(lambda: holds(process, 0))
        assert mounts_below(node) == []


def test_a_keeper_without_a_holder_unmounts_at_its_end(node: Path, tmp_path: Path, version: VersionFolder) -> None:
    with keeper(node, tmp_path / "a") as only:
        only.serve(version)
        assert only.stop() == 0
        assert mounts_below(node) == []

"""Cache folders that fill up, die, become read-only or are deleted during real reads.

Right bytes or a clear errno, soon.
"""

import errno
import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from tests.support.faulty_node import FaultyNode, faulty_node, random_files
from tests.support.small_disk import SmallDisk, memory_folder, small_disk
from tests.support.waiting import wait_until

pytestmark = pytest.mark.root
FILES = random_files(60, 200_000)
# The limit in seconds of a call to a failed disk. The fetcher gives up far earlier than the kubelet.
BOUND = 20.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path) as made:
        yield made


@pytest.fixture
def dying(tmp_path: Path) -> Iterator[SmallDisk]:
    """Mount an XFS, which refuses every call after it is killed."""
    with small_disk(tmp_path, kind="xfs") as made:
        yield made


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    with memory_folder(tmp_path) as made:
        yield made


@pytest.fixture
def alone(tmp_path: Path, disk: SmallDisk) -> Iterator[FaultyNode]:
    """Run a node with one folder, on the disk."""
    with faulty_node(tmp_path, str(disk.path), FILES) as made:
        yield made


@pytest.fixture
def spared(tmp_path: Path, disk: SmallDisk, memory: Path) -> Iterator[FaultyNode]:
    """Run a node with a folder in memory and one on the disk."""
    with faulty_node(tmp_path, f"{disk.path},memory:{memory}", FILES) as made:
        yield made


def _read(mount: Path, names: list[str]) -> dict[str, bytes]:
    return {name: (mount / name).read_bytes() for name in names}


def _read_all(mount: Path) -> dict[str, bytes]:
    return {str(path.relative_to(mount)): path.read_bytes() for path in mount.rglob("*.png")}


def _half() -> list[str]:
    return sorted(FILES)[: len(FILES) // 2]


def test_readers_go_on_in_another_folder_when_the_disk_dies(spared: FaultyNode, disk: SmallDisk, memory: Path) -> None:
    mount = spared.mount(spared.list())
    _read(mount, _half())
    disk.kill()
    assert _read_all(mount) == FILES
    assert any(memory.glob("datasets/*/versions/*/tree/*/*.png"))


def test_readers_go_on_in_another_folder_when_the_disk_refuses_every_call(
    tmp_path: Path, dying: SmallDisk, memory: Path
) -> None:
    with faulty_node(tmp_path, f"{dying.path},memory:{memory}", FILES) as node:
        mount = node.mount(node.list())
        _read(mount, _half())
        dying.kill()
        assert _read_all(mount) == FILES
        assert any(memory.glob("datasets/*/versions/*/tree/*/*.png"))


def test_a_whole_dataset_starts_anew_in_another_folder_when_its_disk_becomes_read_only(
    spared: FaultyNode, disk: SmallDisk, memory: Path
) -> None:
    digest = spared.list()
    spared.configure(version=digest, eager=True)
    spared.reach(lambda status: status.phase is NodePhase.WARM)
    disk.make_read_only()
    wait_until(lambda: any(memory.glob("datasets/*/versions/*/complete")), 40.0)
    (first, _) = spared.progress().folders
    assert not first["healthy"]


def test_with_one_folder_what_is_there_is_served_and_the_rest_is_refused_soon(
    alone: FaultyNode, disk: SmallDisk
) -> None:
    mount = alone.mount(alone.list())
    some = _half()
    _read(mount, some)
    disk.make_read_only()
    assert _read(mount, some) == {name: FILES[name] for name in some}
    before = time.monotonic()
    with pytest.raises(OSError, match=r".") as refused:
        _read(mount, [sorted(FILES)[-1]])
    assert refused.value.errno == errno.EIO
    assert time.monotonic() - before < BOUND


def test_one_folder_recovers_with_no_word_from_outside(alone: FaultyNode, disk: SmallDisk) -> None:
    mount = alone.mount(alone.list())
    disk.make_read_only()
    with pytest.raises(OSError, match=r"."):
        _read_all(mount)
    disk.make_read_only(really=False)
    assert _read_all(mount) == FILES


def test_a_folder_deleted_under_readers_is_filled_again(alone: FaultyNode, disk: SmallDisk) -> None:
    mount = alone.mount(alone.list())
    _read(mount, _half())
    for path in disk.path.iterdir():
        shutil.rmtree(path, ignore_errors=True)
    assert _read_all(mount) == FILES


def test_a_full_disk_is_no_error_while_there_is_memory(spared: FaultyNode, disk: SmallDisk) -> None:
    mount = spared.mount(spared.list())
    _read(mount, _half())
    disk.fill()
    assert _read_all(mount) == FILES


_LITTLE = 6 * 1024**2  # bytes: half of the files
_FLOOR = "16Mi"  # more than that: no file may stay


@pytest.mark.parametrize("when", ["before the first read", "in the middle"])
def test_a_disk_that_others_fill_but_for_a_little_is_read_through_and_never_full(
    tmp_path: Path, disk: SmallDisk, when: str
) -> None:
    with faulty_node(tmp_path, str(disk.path), FILES, floor=_FLOOR) as node:
        mount = node.mount(node.list())
        if when == "in the middle":
            _read(mount, _half())
        disk.fill(but=_LITTLE)
        for name, content in FILES.items():
            assert (mount / name).read_bytes() == content
            assert disk.free() > 0


def test_many_readers_of_a_disk_with_little_room_get_the_right_bytes(tmp_path: Path, disk: SmallDisk) -> None:
    with faulty_node(tmp_path, str(disk.path), FILES, floor=_FLOOR) as node, ThreadPoolExecutor(8) as readers:
        mount = node.mount(node.list())
        disk.fill(but=_LITTLE)
        read = readers.map(lambda name: (mount / name).read_bytes(), FILES)
        assert dict(zip(FILES, read, strict=True)) == FILES


def test_a_file_larger_than_the_room_of_its_disk_is_read_through(tmp_path: Path, disk: SmallDisk) -> None:
    large = {"large.bin": random.Random(1).randbytes(60 * 1024**2)}
    with faulty_node(tmp_path, str(disk.path), large, floor=_FLOOR) as node:
        mount = node.mount(node.list())
        disk.fill(but=30 * 1024**2)
        with (mount / "large.bin").open("rb") as file:
            for place in range(0, 60 * 1024**2, 1024**2):
                assert file.read(1024**2) == large["large.bin"][place : place + 1024**2]


def test_a_disk_with_fewer_inodes_than_files_and_folders_is_read_through(tmp_path: Path) -> None:
    nested = {f"{path}/a/b": data for path, data in random_files(300, 5000).items()}
    with small_disk(tmp_path, 64, "ext4", "-N", "200") as disk, faulty_node(tmp_path, str(disk.path), nested) as node:
        mount = node.mount(node.list())
        for _ in range(2):
            assert _read(mount, list(nested)) == nested


def test_a_full_disk_alone_is_a_clear_errno_and_room_again_is_used(alone: FaultyNode, disk: SmallDisk) -> None:
    mount = alone.mount(alone.list())
    ballast = disk.fill()
    before = time.monotonic()
    with pytest.raises(OSError, match=r".") as refused:
        _read_all(mount)
    assert refused.value.errno == errno.ENOSPC
    assert time.monotonic() - before < BOUND
    ballast.unlink()
    assert _read_all(mount) == FILES

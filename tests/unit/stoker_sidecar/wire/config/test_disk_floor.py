"""The free space to leave on a disk, in bytes and in inodes."""

import sys

import pytest

from stoker_sidecar.wire.config.disk_floor import NO_FLOOR, DiskFloor, DiskSpace, Floor
from tests.support.cases import cases

GIB = 1 << 30
DISK = DiskSpace(available=100 * GIB, total=1000 * GIB, inodes_available=500, inodes_total=1000)


@cases("text, of_a_thousand", ("16%", 160), ("2.5 %", 25), ("0", 0), ("0%", 0), ("40", 40), ("1Ki", 1000))
def test_a_floor_is_a_share_or_an_amount(text: str, of_a_thousand: int) -> None:
    assert Floor.parse(text).of(1000) == of_a_thousand


@pytest.mark.parametrize("floor", [Floor(share=0.16), Floor(share=0.152), Floor(amount=50 * GIB), Floor()])
def test_a_floor_is_read_as_it_is_written(floor: Floor) -> None:
    assert Floor.parse(str(floor)) == floor


@pytest.mark.parametrize("text", ["", "100%", "-1%", "many", "%"])
def test_what_is_no_floor_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="a share such as 16%, or an amount such as 50Gi"):
        Floor.parse(text)


def test_the_defaults_lie_above_the_kubelets_thresholds() -> None:
    kubelet_bytes, kubelet_inodes = 0.15, 0.05  # imagefs.available, nodefs.inodesFree
    floor = DiskFloor().for_metadata()
    assert floor.bytes.share > kubelet_bytes
    assert floor.inodes.share > kubelet_inodes


def test_what_files_may_take_is_what_lies_above_the_floor() -> None:
    floor = DiskFloor(Floor(amount=40 * GIB), Floor(share=0.2))
    assert (floor.bytes_left(DISK), floor.inodes_left(DISK)) == (60 * GIB, 300)


def test_without_inodes_no_byte_is_free() -> None:
    assert DiskFloor(Floor(), Floor(share=0.5)).bytes_left(DISK) == 0


def test_a_file_system_without_a_limit_of_inodes_has_room_for_any_number() -> None:
    assert NO_FLOOR.inodes_left(DiskSpace(1, 1)) == sys.maxsize


def test_file_lists_go_a_little_below_the_floor_of_cached_bytes() -> None:
    full = DISK._replace(available=160 * GIB)
    floor = DiskFloor(Floor(share=0.16), Floor())
    assert floor.bytes_left(full) == 0
    assert floor.for_metadata().bytes_left(full) == 8 * GIB

"""Room for a metadata layer, and what its placeholders tell of their source."""

import os

import pytest

from stoker_sidecar.errors import MountError
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.volumes.metadata_layer import check_room, source_attributes

GIB = 1 << 30


def disk(*, free_bytes: int, free_inodes: int, inodes: int = 10**9) -> os.statvfs_result:
    """Make a statvfs result of a disk with so much room.

    Fields: block sizes, blocks, free, available, inodes, free, available, flags, name.
    """
    blocks = free_bytes // 4096
    return os.statvfs_result((4096, 4096, 10**9, blocks, blocks, inodes, free_inodes, free_inodes, 0, 255))


def test_a_disk_with_twice_the_inodes_and_bytes_has_room() -> None:
    check_room(1_000_000, disk(free_bytes=10 * GIB, free_inodes=2_000_000))


@pytest.mark.parametrize(
    "full", [disk(free_bytes=10 * GIB, free_inodes=1_999_999), disk(free_bytes=8 * GIB, free_inodes=10**8)]
)
def test_a_disk_that_would_be_half_full_of_placeholders_is_refused_with_the_figures(full: os.statvfs_result) -> None:
    with pytest.raises(MountError, match="layer of 1000000 entries"):
        check_room(1_000_000, full)


def test_a_file_system_without_an_inode_limit_is_asked_for_bytes_alone() -> None:
    check_room(1_000_000, disk(free_bytes=10 * GIB, free_inodes=0, inodes=0))


@pytest.mark.parametrize(("version_id", "names"), [("", ["key", "etag"]), ("v1", ["key", "etag", "version"])])
def test_a_placeholder_tells_the_source_as_the_fuse_server_does(version_id: str, names: list[str]) -> None:
    entry = Entry(2, 1, b"f", False, 1, 0, "e", version_id)
    assert [name for name, _ in source_attributes(b"a/f", entry)] == [f"user.stoker.{name}".encode() for name in names]

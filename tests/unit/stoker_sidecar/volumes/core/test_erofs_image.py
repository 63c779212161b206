"""The encoding of images, decoded by the format's rules. Tests of overlays read them with the kernel."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.volumes.core.erofs_image import (
    BLOCK,
    EntryKind,
    FolderBlocks,
    attribute,
    file_inode,
    folder_inode,
    slot,
    super_block,
)
from tests.support.cases import cases

OWN, PARENT = 36, 40
ROW = struct.Struct("<QHBx")
names = st.binary(min_size=1, max_size=255).filter(
    lambda name: name not in (b".", b"..") and b"/" not in name and b"\0" not in name
)


def rows_of(block: bytes) -> list[tuple[bytes, int, int]]:
    """Read a block of a folder as the kernel does. The offset of the first name gives the number of rows."""
    count = ROW.unpack_from(block)[1] // ROW.size
    rows = [ROW.unpack_from(block, number * ROW.size) for number in range(count)]
    ends = [at for _, at, _ in rows[1:]] + [BLOCK]
    return [(block[at:end].rstrip(b"\0"), inode, kind) for (inode, at, kind), end in zip(rows, ends, strict=True)]


def entries_of(data: bytes) -> list[tuple[bytes, int, int]]:
    return [row for start in range(0, len(data), BLOCK) for row in rows_of(data[start : start + BLOCK])]


@given(st.sets(names, max_size=300))
def test_a_folder_lists_what_was_added_and_its_dots_in_the_order_of_bytes(added: set[bytes]) -> None:
    folder = FolderBlocks(OWN, PARENT)
    for number, name in enumerate(sorted(added)):
        folder.add(name, number, EntryKind.FILE)
    data = folder.finish()
    dots = [(b".", OWN, EntryKind.FOLDER), (b"..", PARENT, EntryKind.FOLDER)]
    files = [(name, number, EntryKind.FILE) for number, name in enumerate(sorted(added))]
    assert (len(data) % BLOCK, entries_of(data)) == (0, sorted([*dots, *files]))


@pytest.mark.parametrize("second", [b"a", b"b"])
def test_a_name_that_is_not_the_next_one_is_refused(second: bytes) -> None:
    """The kernel would not find such a name."""
    folder = FolderBlocks(OWN, PARENT)
    folder.add(b"b", 1, EntryKind.FILE)
    with pytest.raises(ValueError, match="comes after"):
        folder.add(second, 2, EntryKind.FILE)


@cases(
    "name, value, encoded",
    (b"trusted.overlay.metacopy", b"", b"\x10\x04\x00\x00overlay.metacopy"),
    (b"user.a", b"bc", b"\x01\x01\x02\x00abc\x00"),
    (b"security.selinux", b"x", b"\x07\x06\x01\x00selinuxx"),
)
def test_an_attribute_is_written_with_the_number_of_its_prefix_up_to_four_bytes(
    name: bytes, value: bytes, encoded: bytes
) -> None:
    assert attribute(name, value) == encoded


def test_an_attribute_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="has 65536 bytes"):
        attribute(b"user.a", bytes(65536))


def test_attributes_that_are_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="the attributes take"):
        file_inode(1, 1, 0, 0o444, 2 * attribute(b"user.a", bytes(40000)))


@given(st.integers(0, 2**50), st.integers(-(2**60), 2**60), st.integers(0, 200))
def test_a_files_inode_tells_size_time_and_attributes_and_fills_its_slots(
    size: int, mtime_ns: int, length: int
) -> None:
    attributes = attribute(b"user.a", bytes(length))
    inode = file_inode(7, size, mtime_ns, 0o444, attributes)
    layout, count, mode, _, told, chunks, number = struct.unpack_from("<HHHHQII", inode)
    seconds, rest, links = struct.unpack_from("<qII", inode, 32)
    assert (layout, mode, told, number, links) == (9, 0o100444, size, 7, 1)
    assert (seconds * 10**9 + rest, 12 + 4 * (count - 1)) == (mtime_ns, 12 + len(attributes))
    holes = max(1, -(-size // (4096 << chunks)))
    assert len(inode) == -(-(64 + 12 + len(attributes) + 4 * holes) // 32) * 32
    assert inode[76 + len(attributes) :].startswith(b"\xff" * 4 * holes)


def test_a_folders_inode_tells_where_its_entries_are() -> None:
    inode = folder_inode(3, (5, 2), 0, 0o555, 4, b"")
    layout, count, mode, _, size, first = struct.unpack_from("<HHHHQI", inode)
    assert (layout, count, mode, size, first, len(inode)) == (1, 0, 0o040555, 2 * BLOCK, 5, 64)
    assert struct.unpack_from("<I", inode, 44) == (6,)


def test_the_super_block_names_the_root() -> None:
    block = super_block(slot(1152), 10, 3)
    assert (len(block), block[:4], struct.unpack_from("<H", block, 14)) == (128, b"\xe2\xe1\xf5\xe0", (36,))

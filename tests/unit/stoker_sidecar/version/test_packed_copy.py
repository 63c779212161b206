"""Compressed copies on the disk."""

import os
from pathlib import Path

import pytest

from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.packed_copy import (
    CopyOrder,
    copies_in,
    is_copy_readable,
    read_frame,
    read_table,
    write_copy,
)
from stoker_sidecar.version.seekable import FRAME, frame_count

TEXT = b"".join(b"line %07d of a file that packs well\n" % number for number in range(30_000))  # 9 frames
NOISE = os.urandom(3 * FRAME)
MTIME = 1_700_000_000_123_456_789
ORDER = CopyOrder(3, 2.0)


def entry(size: int) -> Entry:
    return Entry(7, 1, b"file", False, size, MTIME, "etag", "")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "packed" / "7.zst"


def content(copy: Path, size: int) -> bytes:
    with copy.open("rb") as file:
        table = read_table(file.fileno(), size)
        return b"".join(read_frame(file.fileno(), table, frame, size) for frame in range(frame_count(size)))


def test_a_copy_is_smaller_and_reads_as_the_file(source: Path, target: Path) -> None:
    source.write_bytes(TEXT)
    size = write_copy(source, target, entry(len(TEXT)), ORDER)
    assert size == target.stat().st_size < len(TEXT) / 2
    assert target.stat().st_mtime_ns == MTIME
    assert content(target, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("data", "order"),
    [(NOISE, ORDER), (TEXT, CopyOrder(3, 90.0)), (TEXT, CopyOrder(3, 2.0, lambda: True)), (TEXT + 4 * NOISE, ORDER)],
    ids=["noise", "ratio", "ended", "half"],
)
def test_what_does_not_become_small_enough_or_is_left_off_leaves_nothing(
    source: Path, target: Path, data: bytes, order: CopyOrder
) -> None:
    source.write_bytes(data)
    assert write_copy(source, target, entry(len(data)), order) == 0
    assert not list(target.parent.iterdir())


def test_a_file_that_is_shorter_than_it_should_be_leaves_nothing(source: Path, target: Path) -> None:
    source.write_bytes(TEXT)
    with pytest.raises(OSError, match="shorter"):
        write_copy(source, target, entry(len(TEXT) + 1), ORDER)
    assert not list(target.parent.iterdir())


@pytest.mark.parametrize("damage", ["cut", "empty", "zeros", "other", "gone"])
def test_a_damaged_copy_is_known_for_one(source: Path, target: Path, damage: str) -> None:
    source.write_bytes(TEXT)
    write_copy(source, target, entry(len(TEXT)), ORDER)
    assert is_copy_readable(target, len(TEXT), 0, len(TEXT))
    packed = target.read_bytes()
    target.unlink()
    spoilt = {"cut": packed[:-1], "empty": b"", "zeros": bytes(len(packed)), "other": packed[:99] + b"?" + packed[100:]}
    if damage in spoilt:
        target.write_bytes(spoilt[damage])
    assert not is_copy_readable(target, len(TEXT), 0, len(TEXT))


def test_what_never_became_whole_is_deleted_and_the_rest_is_found(source: Path, target: Path) -> None:
    source.write_bytes(TEXT)
    write_copy(source, target, entry(len(TEXT)), ORDER)
    for name in ("9.abc.tmp", "x.zst", "9.zst.tmp"):
        (target.parent / name).write_bytes(b"half")
    assert list(copies_in(target.parent)) == [7]
    assert [path.name for path in target.parent.iterdir()] == ["7.zst"]


def test_a_version_without_copies_needs_no_folder(tmp_path: Path) -> None:
    assert copies_in(tmp_path / "packed") == {}

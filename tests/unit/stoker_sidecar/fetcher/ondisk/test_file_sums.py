"""Checksums of a version's files on the disk, proven or not."""

import struct
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.ondisk.file_sums import ChecksumFile, NotedSum


def test_sums_are_remembered_and_a_noted_zero_is_not_a_hole(tmp_path: Path) -> None:
    with ChecksumFile(tmp_path / "sums") as sums:
        sums.put(5, 0, proven=True)
    with ChecksumFile(tmp_path / "sums") as sums:
        assert [sums.get(ino) for ino in (4, 5, 6)] == [None, NotedSum(0, proven=True), None]


@pytest.mark.parametrize("proven", [False, True])
def test_an_earlier_release_reads_the_sums_and_its_own_are_not_proven(tmp_path: Path, proven: bool) -> None:
    with ChecksumFile(tmp_path / "sums") as sums:
        sums.put(1, 77, proven=proven)
    (value,) = struct.unpack("<Q", (tmp_path / "sums").read_bytes()[8:])
    assert value & (1 << 32)  # the format of that release
    assert value & (2**32 - 1) == 77
    (tmp_path / "sums").write_bytes(struct.pack("<QQ", 0, 77 | 1 << 32))
    with ChecksumFile(tmp_path / "sums") as sums:
        assert sums.get(1) == NotedSum(77, proven=False)

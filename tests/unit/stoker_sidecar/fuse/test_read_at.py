"""Reading the cache disk."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from stoker_sidecar.fuse.open_files import read_at

_DATA = os.urandom(100_000)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(_DATA)
    opened = os.open(tmp_path / "file", os.O_RDONLY)
    yield opened
    os.close(opened)


def test_bytes_in_memory_are_read(fd: int) -> None:
    assert trio.run(read_at, fd, 10, 5000) == _DATA[10:5010]


def test_bytes_that_must_come_from_the_disk_are_read(fd: int) -> None:
    os.fsync(fd)  # dirty pages cannot be dropped
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert trio.run(read_at, fd, 0, len(_DATA)) == _DATA


def test_a_file_that_ends_early_gives_what_it_has(fd: int) -> None:
    assert trio.run(read_at, fd, 99_990, 50) == _DATA[99_990:]


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EOPNOTSUPP])
def test_a_disk_that_cannot_tell_is_read_all_the_same(fd: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "preadv", refuse)
    assert trio.run(read_at, fd, 0, 100) == _DATA[:100]


def test_a_disk_that_fails_is_an_error(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="directory"):
            trio.run(read_at, folder, 0, 10)
    finally:
        os.close(folder)

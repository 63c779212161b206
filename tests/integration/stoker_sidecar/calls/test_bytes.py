"""Every way to read a file returns the object's bytes, in each kind of mount."""

import errno
import mmap
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.mount_kinds import Shown

pytestmark = pytest.mark.root
PAGE = mmap.PAGESIZE


@pytest.mark.parametrize("size", [1000, PAGE, 131_073, 4 * 2**20])
def test_read_to_the_end(fd: int, truth: bytes, size: int) -> None:
    assert b"".join(iter(lambda: os.read(fd, size), b"")) == truth


@pytest.mark.parametrize("offset", [0, 1, PAGE - 1, PAGE, 131_071, 2**20, 3 * 2**20 + 16])
def test_pread_at_edges(fd: int, truth: bytes, offset: int) -> None:
    assert os.pread(fd, 100_000, offset) == truth[offset : offset + 100_000]


@pytest.mark.parametrize("offset", [3 * 2**20 + 17, 2**40, 2**62])
def test_pread_behind_the_end_gives_nothing(fd: int, offset: int) -> None:
    assert os.pread(fd, 10, offset) == b""


def test_pread_before_the_start_is_einval(fd: int) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        os.pread(fd, 10, -1)


def test_readv_and_preadv_fill_buffer_after_buffer(fd: int, truth: bytes) -> None:
    sizes = (1, 5000, 70_000)
    reads: tuple[Callable[[list[bytearray]], int], ...] = (
        lambda buffers: os.readv(fd, buffers),
        lambda buffers: os.preadv(fd, buffers, 0),
    )
    for read in reads:
        buffers = [bytearray(size) for size in sizes]
        assert read(buffers) == sum(sizes)
        assert b"".join(buffers) == truth[: sum(sizes)]


@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, mmap.MAP_PRIVATE, mmap.MAP_PRIVATE | mmap.MAP_POPULATE])
def test_a_mapping_has_the_bytes(fd: int, truth: bytes, flags: int) -> None:
    with mmap.mmap(fd, len(truth), flags, mmap.PROT_READ) as mapped:
        assert mapped[:] == truth


def test_a_private_mapping_can_be_changed_and_the_file_does_not_change(fd: int, truth: bytes) -> None:
    with mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        mapped[:7] = b"changed"
        assert mapped[:10] == b"changed" + truth[7:10]
    assert os.pread(fd, 10, 0) == truth[:10]


def test_a_shared_mapping_cannot_be_made_writable(fd: int) -> None:
    with pytest.raises(OSError, match="Permission denied"):
        mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


def test_a_mapping_faults_the_bytes_in_again_after_they_were_evicted(fd: int, truth: bytes) -> None:
    with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        assert mapped[:] == truth
        mapped.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        assert mapped[:] == truth


def test_a_file_can_be_mapped_to_execute_as_libraries_are(fd: int, truth: bytes) -> None:
    with mmap.mmap(fd, PAGE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC) as mapped:
        assert mapped[:] == truth[:PAGE]


def test_a_mapping_outlives_its_descriptor(mounted: Shown, truth: bytes) -> None:
    with (mounted.path / "data/large.bin").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    with mapped:
        assert mapped[:] == truth


def test_sendfile_sends_the_bytes(fd: int, truth: bytes, output: int) -> None:
    sent = 0
    while count := os.sendfile(output, fd, sent, 2**20):
        sent += count
    assert _content(output) == truth


def test_splice_moves_the_bytes_through_a_pipe(fd: int, truth: bytes, output: int) -> None:
    read_end, write_end = os.pipe()
    try:
        while count := os.splice(fd, write_end, 2**16):
            assert os.splice(read_end, output, count) == count
    finally:
        os.close(read_end)
        os.close(write_end)
    assert _content(output) == truth


def test_copy_file_range_copies_or_says_that_the_file_systems_differ(fd: int, truth: bytes, output: int) -> None:
    try:
        while os.copy_file_range(fd, output, 2**20):
            pass
    except OSError as error:
        assert error.errno == errno.EXDEV  # noqa: PT017  one of two good answers
    else:
        assert _content(output) == truth


def test_direct_reads_of_whole_pages_have_the_bytes_and_the_tail_is_short(mounted: Shown, truth: bytes) -> None:
    fd = os.open(mounted.path / "data/large.bin", os.O_RDONLY | os.O_DIRECT)
    step = 64 * PAGE
    seen = bytearray()
    try:
        with mmap.mmap(-1, step) as buffer:  # page-aligned, as O_DIRECT requires
            while count := os.preadv(fd, [buffer], len(seen)):
                seen += buffer[:count]
                if count < step:
                    break
    finally:
        os.close(fd)
    assert bytes(seen) == truth


@pytest.mark.parametrize("path", ["data/large.bin", "data/zeros.bin"])
def test_seeking_holes_never_skips_bytes_that_are_not_zero(mounted: Shown, path: str) -> None:
    truth = mounted.files[path]
    seen = bytearray(len(truth))
    with (mounted.path / path).open("rb") as file:
        for start, end in _segments(file.fileno(), len(truth)):
            seen[start:end] = os.pread(file.fileno(), end - start, start)
    assert bytes(seen) == truth


def test_there_is_no_data_behind_the_end_and_a_hole_at_it(fd: int, truth: bytes) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
        os.lseek(fd, len(truth), os.SEEK_DATA)
    assert os.lseek(fd, len(truth) - 1, os.SEEK_HOLE) == len(truth)


def test_a_copier_that_looks_for_holes_copies_the_bytes(mounted: Shown, tmp_path: Path) -> None:
    for path in ("data/zeros.bin", "data/large.bin"):
        subprocess.run(["cp", "--sparse=always", str(mounted.path / path), str(tmp_path / "copy")], check=True)
        assert (tmp_path / "copy").read_bytes() == mounted.files[path]


@pytest.mark.parametrize("advice", ["NORMAL", "SEQUENTIAL", "RANDOM", "WILLNEED", "DONTNEED", "NOREUSE"])
def test_advice_is_taken_and_changes_no_byte(fd: int, truth: bytes, advice: str) -> None:
    os.posix_fadvise(fd, 0, 0, getattr(os, f"POSIX_FADV_{advice}"))
    assert os.pread(fd, len(truth), 0) == truth


def test_an_empty_file_ends_at_once(mounted: Shown) -> None:
    assert (mounted.path / "data/empty").read_bytes() == b""


def test_syncing_what_is_only_read_succeeds(fd: int) -> None:
    os.fsync(fd)
    os.fdatasync(fd)


@pytest.fixture
def output(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "output", os.O_RDWR | os.O_CREAT, 0o600)
    yield opened
    os.close(opened)


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def _segments(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Walk the data ranges of lseek: (start, end) of each."""
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end

"""Files of a known order are read into the page cache in that order, if there is memory."""

import asyncio
import os
import struct
import subprocess
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.errors import NotYetConfigured
from stoker_sidecar.fetcher.pages import page_cache, page_prefetch, prefetch_stream
from stoker_sidecar.fetcher.pages.core import prefetch_queue
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures, foreseen_room
from stoker_sidecar.fetcher.pages.page_cache import PageCache, PageRange
from stoker_sidecar.fetcher.pages.page_prefetch import PagePrefetcher
from stoker_sidecar.fetcher.pages.prefetch_stream import PrefetchStream
from stoker_sidecar.wire.fetcher_hints import FileKnobs, PageWindow, Tune
from stoker_sidecar.wire.fetcher_protocol import FORESEEN_BYTES, ReaderPosition
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, inode
from tests.support.cases import cases
from tests.support.waiting import eventually, wait_until

GIB = 2**30
NAMES = [f"d{number % 3}/f{number:02d}" for number in range(20)]
ORDER = [NAMES[number] for number in (7, 3, 19, 0, 12)]


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> list[PageRange]:
    """Return the ranges that are read into memory. No file is in memory before."""
    found: list[PageRange] = []
    monkeypatch.setattr(prefetch_stream, "_STREAMS", 1)
    monkeypatch.setattr(page_prefetch, "_LOOK_AT_DUE", float("inf"))

    def begin(one: PageRange) -> int:
        found.append(one)
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    monkeypatch.setattr(page_cache, "_begin", begin)
    monkeypatch.setattr(prefetch_stream, "_is_in_memory", lambda one: False)
    return found


async def whole(cache_node: CacheNodeUnderTest, size: int = 100) -> str:
    """Return a complete version on the disk."""
    fill(cache_node.store, dict.fromkeys(NAMES, b"x" * size))
    digest = await cache_node.list()
    await cache_node.configure(listingId="1", version=digest, eager=True, held=(digest,))
    await cache_node.reach(lambda status: status.warm_files == len(NAMES))
    return digest


def upcoming(cache_node: CacheNodeUnderTest, digest: str, names: Sequence[str], first: int = 0) -> PageWindow:
    pieces = b"".join(struct.pack("<IIQ", inode(cache_node, digest, name), 0, 0) for name in names)
    return PageWindow(UID, digest, "pod", first, pieces=pieces)


def names_of(ranges: Sequence[PageRange]) -> list[str]:
    return ["/".join(Path(one.path).parts[-2:]) for one in ranges]


def read(one: PageRange) -> None:
    Path(one.path).read_bytes()


def counted(cache_node: CacheNodeUnderTest) -> int:
    return next((row.value for row in cache_node.node.progress().counts if row.name == FORESEEN_BYTES), 0)


async def test_files_are_brought_in_the_order_that_is_known(
    cache_node: CacheNodeUnderTest, brought: list[PageRange]
) -> None:
    digest = await whole(cache_node)
    cache_node.node.bring(upcoming(cache_node, digest, ORDER))
    await eventually(lambda: counted(cache_node) == 100 * len(ORDER))
    assert names_of(brought) == ORDER


async def test_what_is_told_later_follows(cache_node: CacheNodeUnderTest, brought: list[PageRange]) -> None:
    digest = await whole(cache_node)
    cache_node.node.bring(upcoming(cache_node, digest, ORDER[:2]))
    await eventually(lambda: len(brought) == 2)
    cache_node.node.bring(upcoming(cache_node, digest, ORDER[2:], first=2))
    await eventually(lambda: len(brought) == len(ORDER))
    assert names_of(brought) == ORDER


async def test_files_that_a_rule_leaves_out_are_not_brought(
    cache_node: CacheNodeUnderTest, brought: list[PageRange]
) -> None:
    digest = await whole(cache_node)
    groups = bytearray(200)
    groups[inode(cache_node, digest, ORDER[1])] = 1
    knobs = (FileKnobs(), FileKnobs(foreseen=False))
    cache_node.node.tune(Tune(UID, digest, knobs, zlib.compress(bytes(groups))))
    cache_node.node.bring(upcoming(cache_node, digest, ORDER))
    await eventually(lambda: len(brought) == len(ORDER) - 1)
    assert names_of(brought) == [ORDER[0], *ORDER[2:]]


async def test_numbers_of_no_file_are_passed_over(cache_node: CacheNodeUnderTest, brought: list[PageRange]) -> None:
    digest = await whole(cache_node)
    odd = struct.pack("<IIQ", 4_000_000_000, 0, 0) + struct.pack("<IIQ", 1, 0, 0)
    known = upcoming(cache_node, digest, ORDER[:1]).pieces
    cache_node.node.bring(PageWindow(UID, digest, "pod", pieces=odd + known))
    await eventually(lambda: len(brought) == 1)
    assert names_of(brought) == ORDER[:1]


async def test_of_a_large_file_only_the_bytes_that_are_named_are_brought(
    cache_node: CacheNodeUnderTest, brought: list[PageRange]
) -> None:
    digest = await whole(cache_node, size=5000)
    ino = inode(cache_node, digest, ORDER[0])
    pieces = struct.pack("<IIQ", ino, 1000, 2000) + struct.pack("<IIQ", ino, 1000, 4500)
    cache_node.node.bring(PageWindow(UID, digest, "pod", pieces=pieces + struct.pack("<IIQ", ino, 1000, 5000)))
    await eventually(lambda: len(brought) == 2)
    assert [(one.offset, one.length) for one in brought] == [(2000, 1000), (4500, 500)]


async def test_a_round_brings_a_bounded_number_of_bytes(
    cache_node: CacheNodeUnderTest, brought: list[PageRange], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []
    bring = PrefetchStream.bring

    def noted(self: PrefetchStream, *options: Any) -> int:
        rounds.append(bring(self, *options))
        return rounds[-1]

    monkeypatch.setattr(PrefetchStream, "bring", noted)
    monkeypatch.setattr(prefetch_stream, "_BATCH", 1)
    monkeypatch.setattr(prefetch_stream, "_ROUND_BYTES", 20_000)
    digest = await whole(cache_node, size=10_000)
    cache_node.node.bring(upcoming(cache_node, digest, NAMES))
    await eventually(lambda: sum(rounds) == 10_000 * len(NAMES))
    assert max(rounds) == 20_000  # a round of a slow disk ends earlier


async def test_where_readers_are_is_told_by_a_file_that_they_open(
    cache_node: CacheNodeUnderTest, brought: list[PageRange]
) -> None:
    digest = await whole(cache_node)
    order = upcoming(cache_node, digest, NAMES)
    assert cache_node.node.bring(order) == ReaderPosition(None)
    await eventually(lambda: counted(cache_node) == 100 * len(NAMES))
    read(brought[0])
    nothing_new = PageWindow(UID, digest, "pod", len(NAMES))
    await eventually(lambda: cache_node.node.bring(nothing_new) == ReaderPosition(0))
    read(brought[17])
    await eventually(lambda: cache_node.node.bring(nothing_new) == ReaderPosition(17))


async def test_files_that_are_opened_to_bring_them_again_are_not_taken_for_read(
    cache_node: CacheNodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch_stream, "_is_in_memory", lambda one: False)
    monkeypatch.setattr(page_prefetch, "_LOOK_AT_DUE", 0.0)
    digest = await whole(cache_node)
    cache_node.node.bring(upcoming(cache_node, digest, NAMES))
    await eventually(lambda: counted(cache_node) > 300 * len(NAMES))
    assert cache_node.node.bring(PageWindow(UID, digest, "pod", len(NAMES))) == ReaderPosition(None)
    cache_node.node.bring(PageWindow(UID, digest, "pod", ended=True))


async def test_what_is_in_memory_is_not_opened_again(
    cache_node: CacheNodeUnderTest, brought: list[PageRange], monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = await whole(cache_node)
    looked: list[PageRange] = []

    def in_memory(one: PageRange) -> bool:
        looked.append(one)
        return True

    monkeypatch.setattr(prefetch_stream, "_is_in_memory", in_memory)
    monkeypatch.setattr(prefetch_stream, "_LOOKED_AT", 1)
    cache_node.node.bring(upcoming(cache_node, digest, ORDER))
    await eventually(lambda: len(looked) == len(ORDER))
    assert (brought, counted(cache_node)) == ([], 0)


async def test_what_is_due_and_was_dropped_meanwhile_is_brought_again(
    cache_node: CacheNodeUnderTest, brought: list[PageRange], monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = await whole(cache_node)
    cache_node.node.bring(upcoming(cache_node, digest, ORDER))
    await eventually(lambda: len(brought) == len(ORDER))
    monkeypatch.setattr(page_prefetch, "_LOOK_AT_DUE", 0.0)
    cache_node.node.bring(PageWindow(UID, digest, "pod", len(ORDER), seen=2.0, at=2.0))
    await eventually(lambda: len(brought) > len(ORDER))
    assert names_of(brought)[len(ORDER)] == ORDER[2]
    cache_node.node.bring(PageWindow(UID, digest, "pod", ended=True))


@cases("available, alone, given", (150_000, True, len(NAMES)), (150_000, False, 0), (250_000, True, 0))
async def test_what_was_read_is_given_back_where_memory_is_too_small_for_all_and_nobody_else_reads(
    cache_node: CacheNodeUnderTest,
    brought: list[PageRange],
    monkeypatch: pytest.MonkeyPatch,
    available: int,
    alone: bool,
    given: int,
) -> None:
    dropped: list[PageRange] = []
    monkeypatch.setattr(prefetch_stream, "_give_back", dropped.append)
    monkeypatch.setattr(prefetch_queue, "_FEW", 1)
    digest = await whole(cache_node, size=10_000)
    foreseen = PagePrefetcher(PageCache(lambda: MemoryFigures(1, 1)), lambda: MemoryFigures(1_000_000, available))
    fetching = next(iter(cache_node.node._datasets.values())).versions.fetchings[digest]
    pieces = upcoming(cache_node, digest, NAMES).pieces
    foreseen.take(PageWindow(UID, digest, "pod", pieces=pieces), fetching, lambda _: True, alone=alone)
    await eventually(lambda: len(brought) == len(NAMES))
    foreseen.take(PageWindow(UID, digest, "pod", len(NAMES), at=100.0), fetching, lambda _: True, alone=alone)
    foreseen.take(PageWindow(UID, digest, "another", pieces=pieces), fetching, lambda _: True)
    await eventually(lambda: len(brought) == 2 * len(NAMES))
    await foreseen.close()
    assert len(dropped) == given


async def test_nothing_more_is_brought_once_the_order_is_taken_back(
    cache_node: CacheNodeUnderTest, brought: list[PageRange]
) -> None:
    digest = await whole(cache_node)
    cache_node.node.bring(upcoming(cache_node, digest, ORDER))
    cache_node.node.bring(PageWindow(UID, digest, "pod", ended=True))
    other = upcoming(cache_node, digest, NAMES[1:2])
    cache_node.node.bring(PageWindow(UID, digest, "another", pieces=other.pieces))
    await eventually(lambda: bool(brought))
    assert names_of(brought) == NAMES[1:2]


async def test_what_is_watched_is_closed_after_the_loop_let_go_of_it(
    cache_node: CacheNodeUnderTest, brought: list[PageRange], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection can reuse the number of a closed descriptor. The loop must not remove its reader."""
    loop, waits, let_go = asyncio.get_running_loop(), list[int](), list[str]()
    add_reader, remove_reader = loop.add_reader, loop.remove_reader

    def add(fd: int, callback: Callable[[], None]) -> None:
        waits.append(fd)
        add_reader(fd, callback)

    def remove(fd: int) -> bool:
        let_go.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        return remove_reader(fd)

    digest = await whole(cache_node)
    monkeypatch.setattr(loop, "add_reader", add)
    monkeypatch.setattr(loop, "remove_reader", remove)
    cache_node.node.bring(upcoming(cache_node, digest, NAMES))
    await eventually(lambda: bool(waits))
    cache_node.node.bring(PageWindow(UID, digest, "pod", ended=True))
    await eventually(lambda: bool(let_go))
    assert set(let_go) == {"anon_inode:inotify"}
    foreseen = cache_node.node._foreseen
    await eventually(lambda: foreseen._task is None and not foreseen._over)


@pytest.mark.expected_logs("are not read ahead for a minute")
async def test_after_trouble_it_is_tried_again(
    cache_node: CacheNodeUnderTest, brought: list[PageRange], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_prefetch, "_TRY_AGAIN", 0.0)
    digest = await whole(cache_node)
    broken = [True]

    def in_memory(one: PageRange) -> bool:
        if broken.pop():
            raise OSError("the disk is gone")
        broken.append(False)
        return False

    monkeypatch.setattr(prefetch_stream, "_is_in_memory", in_memory)
    cache_node.node.bring(upcoming(cache_node, digest, ORDER))
    await eventually(lambda: not broken)
    broken.append(False)

    def told_again() -> bool:
        cache_node.node.bring(upcoming(cache_node, digest, ORDER))
        return len(brought) >= len(ORDER)

    await eventually(told_again)


async def test_a_version_that_is_not_open_is_told_later(cache_node: CacheNodeUnderTest) -> None:
    with pytest.raises(NotYetConfigured, match="not open on this node"):
        cache_node.node.bring(PageWindow(UID, "0" * 64, "pod"))


def test_a_file_that_was_read_is_in_memory_and_one_that_is_gone_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10_000)
    path.read_bytes()
    assert prefetch_stream._is_in_memory(PageRange(str(path), 0, 10_000))
    assert prefetch_stream._is_in_memory(PageRange(str(tmp_path / "gone"), 0, 1))


def test_a_file_whose_pages_were_dropped_is_not_in_memory(tmp_path: Path) -> None:
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True
    ).stdout.strip()
    if kind not in ("ext2/ext3", "xfs"):
        pytest.skip(f"a file system of which it is not known that it drops pages: {kind}")
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100_000)
    whole = PageRange(str(path), 0, 100_000)

    def is_dropped() -> bool:
        """Drop the pages, and return True once they are gone. Pages with a kernel reference stay (2 files of 600)."""
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return not prefetch_stream._is_in_memory(whole)

    wait_until(is_dropped)


@pytest.mark.parametrize(
    ("limit", "size", "room"),
    [
        (None, 10 * GIB, 16 * GIB),
        (4 * GIB, 2 * GIB, 2 * GIB),  # fits into the sidecar's limit, and stays there
        (4 * GIB, 30 * GIB, 0),  # fits into the machine: files that readers load stay
        (4 * GIB, 900 * GIB, GIB),  # fits nowhere: the kernel may keep half of the limit for pages used again soon
    ],
)
def test_a_sidecar_with_a_limit_brings_nothing_that_would_stay_without_it(
    limit: int | None, size: int, room: int
) -> None:
    memory = MemoryFigures(64 * GIB, 50 * GIB, limit)
    assert foreseen_room(memory, 0, size) == room


def test_readers_that_wait_for_memory_have_a_smaller_window() -> None:
    assert foreseen_room(MemoryFigures(64 * GIB, 50 * GIB, pressure=20.0), 0, 900 * GIB) == 4 * GIB


def test_nothing_is_brought_where_there_is_hardly_any_memory_left() -> None:
    assert foreseen_room(MemoryFigures(64 * GIB, 6 * GIB), 0, 900 * GIB) == 0

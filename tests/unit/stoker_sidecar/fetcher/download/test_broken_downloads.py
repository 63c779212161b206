"""Readers of a large file whose download breaks off and restarts get the right bytes, never missing ones."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.worker.transfer import Arrived, Fetched, Piece
from tests.support.cache_node import LARGE, CacheNodeUnderTest, fill, inode, open_cache_node

FIRST, AGAIN = 5_000_000, 1_000_000  # bytes before the break, and bytes of the next attempt so far


class BreakingOff:
    """A PieceFetcher whose first download of the first chunk breaks off. The next download stalls after a while.

    ``is_restarted``: the fetcher itself restarts the download, like a pool whose worker died. Otherwise it fails.
    """

    def __init__(self, *, is_restarted: bool) -> None:
        self.stands = asyncio.Event()
        self.goes_on = asyncio.Event()
        self._begins_anew = is_restarted
        self._broken = False

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """See PieceFetcher."""
        if piece.offset == 0 and not self._broken:
            self._broken = True
            _write(piece, 0, FIRST, arrived)
            if not self._begins_anew:
                raise CorruptBody("the body broke off")
        if piece.offset == 0:
            _write(piece, 0, AGAIN, arrived)
            self.stands.set()
            await self.goes_on.wait()
        _write(piece, 0, piece.length, arrived)
        return Fetched(published=False, md5="", etag_may_be_md5=False, crc64nvme="00" * 8)

    def forget(self, handle: StoreHandle) -> None:
        """See PieceFetcher."""


def _write(piece: Piece, start: int, end: int, arrived: Arrived) -> None:
    with Path(piece.into).open("r+b") as file:
        os.pwrite(file.fileno(), LARGE[piece.offset + start : piece.offset + end], piece.offset + start)
    arrived(end)


@pytest.fixture(params=[False, True], ids=["fails", "begins anew"])
async def breaking(request: pytest.FixtureRequest) -> BreakingOff:
    return BreakingOff(is_restarted=request.param)


@pytest.fixture
async def cache_node(breaking: BreakingOff, tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    async with open_cache_node(tmp_path, fetcher=breaking) as cache_node:
        fill(cache_node.store, {"large": LARGE})
        yield cache_node
        breaking.goes_on.set()


async def test_bytes_that_only_the_sum_of_both_attempts_reaches_are_waited_for(
    breaking: BreakingOff, cache_node: CacheNodeUnderTest
) -> None:
    digest = await cache_node.list()
    reading = asyncio.create_task(cache_node.read(digest, inode(cache_node, digest, "large"), FIRST + AGAIN // 2, 10))
    await breaking.stands.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not reading.done()
    breaking.goes_on.set()
    assert await reading == LARGE[FIRST + AGAIN // 2 :][:10]


async def test_bytes_that_came_before_the_break_are_there_for_readers(
    breaking: BreakingOff, cache_node: CacheNodeUnderTest
) -> None:
    digest = await cache_node.list()
    ino = inode(cache_node, digest, "large")
    first = await cache_node.read(digest, ino, 0, 10)
    await breaking.stands.wait()
    assert (first, await cache_node.read(digest, ino, FIRST - 10, 10)) == (LARGE[:10], LARGE[FIRST - 10 : FIRST])

"""Which chunks of large files warming asks for together, with a source that has 40 of them and brings none."""

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from stoker_api.nodecache import NodePhase
from stoker_sidecar.errors import DiskFull
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.worker.progress import Arrived
from stoker_sidecar.worker.transfer import Fetched, Piece
from tests.support.cache_node import CacheNodeUnderTest, inode, open_cache_node
from tests.support.waiting import eventually

CHUNKS = 40


class Asked(NamedTuple):
    """A chunk that was asked for, and how many more at once."""

    key: str
    chunk: int
    ahead: int


class Noting:
    """A PieceFetcher that notes what it is asked for, and leaves holes where bytes should be.

    The first chunk of the file ``held`` does not come before ``go_on``; no other than the first chunk of ``full`` fits.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.held = ""
        self.full = ""
        self.go_on = asyncio.Event()

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """See PieceFetcher."""
        self.asked.append(Asked(piece.key, piece.offset // CHUNK, piece.ahead // CHUNK))
        await asyncio.sleep(0)
        if piece.key == self.held and not piece.offset:
            await self.go_on.wait()
        if piece.key == self.full and piece.offset:
            raise DiskFull("no room for it")
        os.truncate(piece.into, piece.size)
        return Fetched(published=False, md5="", etag_may_be_md5=False, crc64nvme="0" * 16)

    def forget(self, handle: StoreHandle) -> None:
        """See PieceFetcher."""


def _fill(cache_node: CacheNodeUnderTest, *paths: str) -> None:
    cache_node.store.etag = lambda content: f"{len(content):x}-1"  # no MD5, which would take a second
    for path in paths:
        cache_node.store.put(path, bytes(CHUNKS * CHUNK))  # whose pages nobody touches


async def test_neighbouring_chunks_are_asked_for_one_after_the_other(tmp_path: Path) -> None:
    noting = Noting()
    async with open_cache_node(tmp_path, fetcher=noting) as cache_node:
        _fill(cache_node, "a")
        await cache_node.warm()
    places = {asked.chunk: place for place, asked in enumerate(noting.asked)}
    assert sorted(places) == [*range(CHUNKS)]
    assert len(noting.asked) == CHUNKS
    announced = [asked for asked in noting.asked if asked.ahead]
    assert announced
    assert all(places[asked.chunk + 1] > places[asked.chunk] for asked in announced)


async def test_runs_are_longer_where_more_is_left(tmp_path: Path) -> None:
    noting = Noting()
    async with open_cache_node(tmp_path, fetcher=noting) as cache_node:
        _fill(cache_node, "a", "b", "c")
        await cache_node.warm()
    assert noting.asked[0] == Asked("a", 0, 5)
    assert noting.asked[1] == Asked("a", 6, 5)
    assert [asked.ahead for asked in noting.asked][-4:] == [0] * 4


async def test_nothing_is_asked_for_ahead_while_a_reader_waits(tmp_path: Path) -> None:
    noting = Noting()
    noting.held = "z"
    async with open_cache_node(tmp_path, fetcher=noting) as cache_node:
        _fill(cache_node, "a", "z")
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest)
        await cache_node.reach(lambda status: status.version == digest)
        reading = asyncio.create_task(cache_node.read(digest, inode(cache_node, digest, "z"), 0, 1))
        await eventually(lambda: Asked("z", 0, 0) in noting.asked)
        await cache_node.configure(listingId="1", version=digest, eager=True)
        await eventually(lambda: len([asked for asked in noting.asked if asked.key == "a"]) == CHUNKS)
        noting.go_on.set()
        await reading
        assert {asked.ahead for asked in noting.asked if asked.key == "a"} == {0}


async def test_under_a_limit_of_bytes_a_second_chunks_are_asked_for_one_by_one(tmp_path: Path) -> None:
    noting = Noting()
    async with open_cache_node(tmp_path, fetcher=noting) as cache_node:
        _fill(cache_node, "a")
        await cache_node.warm(bytesPerSecond=2**40)
    assert {asked.ahead for asked in noting.asked} == {0}


@pytest.mark.expected_logs("no room for it")
async def test_a_disk_that_is_full_in_the_middle_of_a_run_ends_the_pass(tmp_path: Path) -> None:
    noting = Noting()
    noting.full = "a"
    async with open_cache_node(tmp_path, fetcher=noting) as cache_node:
        _fill(cache_node, "a")
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest, eager=True)
        status = await cache_node.reach(lambda status: bool(status.error))
        assert status.phase is not NodePhase.WARM

"""How much of a piece that a source is sending can be given on: never what is not there yet, or may not be right."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.wire.fetcher_protocol import Reach, Reached
from stoker_sidecar.worker.progress import Arrived
from stoker_sidecar.worker.transfer import Fetched, Piece
from tests.support.cache_node import LARGE, UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.waiting import eventually

MIB = 2**20


@dataclass
class ByHand:
    """A PieceFetcher that brings as much of the first piece as the test says, and nothing of the others."""

    coming: "asyncio.Queue[int | Exception]" = field(default_factory=asyncio.Queue)

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """See PieceFetcher."""
        here = 0
        while here < piece.length:
            told = await (self.coming.get() if piece.offset == 0 else asyncio.Event().wait())
            if isinstance(told, Exception):
                raise told
            here = told
            _write(piece, here)
            arrived(here)
        told = await self.coming.get()
        if isinstance(told, Exception):
            raise told
        return Fetched(published=False, md5="", etag_may_be_md5=False, crc64nvme="00" * 8)

    def forget(self, handle: StoreHandle) -> None:
        """See PieceFetcher."""


def _write(piece: Piece, end: int) -> None:
    with Path(piece.into).open("r+b") as file:
        os.pwrite(file.fileno(), LARGE[piece.offset : piece.offset + end], piece.offset)


@dataclass
class OnItsWay:
    """A node to which the first piece of a file comes as ``source`` says."""

    node: CacheNodeUnderTest
    digest: str
    source: ByHand
    part: str

    async def past(self, known: int, piece: int = 0) -> Reached:
        return await self.node.node.reach(Reach(UID, self.digest, self.part, piece, known))

    def comes(self, *told: int | Exception) -> None:
        for one in told:
            self.source.coming.put_nowait(one)


@pytest.fixture
async def way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OnItsWay]:
    monkeypatch.setattr("stoker_sidecar.fetcher.download.coming_pieces._SOON", 0.02)
    source = ByHand()
    async with open_cache_node(tmp_path / "cache", fetcher=source) as node:
        fill(node.store, {"model": LARGE})
        digest = await node.list()
        await node.configure(listingId="1", version=digest, eager=True)
        parts = node.folder(digest) / "parts"
        await eventually(lambda: any(parts.glob("*.????????")))
        (part,) = parts.glob("*.????????")
        yield OnItsWay(node, digest, source, part.name)


async def test_what_is_here_is_told_once_it_is_more(way: OnItsWay) -> None:
    way.comes(3 * MIB)
    assert await way.past(0) == Reached(3 * MIB)
    asking = asyncio.create_task(way.past(3 * MIB))
    await asyncio.sleep(0)
    assert not asking.done()
    way.comes(5 * MIB)
    assert await asking == Reached(5 * MIB)


async def test_little_is_told_after_a_moment(way: OnItsWay) -> None:
    way.comes(1000)
    assert await way.past(0) == Reached(1000)


async def test_what_does_not_get_on_is_told_as_it_is(way: OnItsWay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_sidecar.fetcher.download.coming_pieces._MOST", 0.02)
    way.comes(1000)
    assert await way.past(0) == await way.past(1000) == Reached(1000)


async def test_the_last_byte_is_told_once_all_has_come_as_it_should(way: OnItsWay) -> None:
    way.comes(CHUNK)
    assert await way.past(0) == Reached(CHUNK - 1)
    way.comes(0)
    assert await way.past(CHUNK - 1) == Reached(CHUNK)


@pytest.mark.expected_logs("CorruptBody")
async def test_what_begins_anew_is_told_with_that(way: OnItsWay) -> None:
    way.comes(3 * MIB)
    assert await way.past(0) == Reached(3 * MIB)
    way.comes(CorruptBody("the body broke off"), 1 * MIB, 4 * MIB)
    await eventually(way.source.coming.empty)
    assert await way.past(3 * MIB) == Reached(4 * MIB, restarts=1)


@pytest.mark.parametrize(
    ("piece", "part", "here"),
    [(1, "", 0), (7, "", -1), (0, "7.00000000", -1), (0, "../x", -1)],
    ids=["waits for its turn", "no piece", "another part", "no name"],
)
async def test_of_nothing_else_anything_is_here(
    way: OnItsWay, monkeypatch: pytest.MonkeyPatch, piece: int, part: str, here: int
) -> None:
    monkeypatch.setattr("stoker_sidecar.fetcher.download.coming_pieces._MOST", 0.02)
    assert await replace(way, part=part or way.part).past(0, piece) == Reached(here)


async def test_of_a_version_that_is_not_open_nothing_comes(way: OnItsWay) -> None:
    assert await replace(way, digest="0" * 64).past(0) == Reached(-1)


async def test_of_a_version_that_is_closed_nothing_comes(way: OnItsWay) -> None:
    way.comes(1000)
    assert (await way.past(0)).here == 1000
    asking = asyncio.create_task(way.past(1000))
    await asyncio.sleep(0)
    await way.node.node.remove(UID)
    assert (await asking).here == -1

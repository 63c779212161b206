"""What other nodes have from here while another node still gives it to this one: never what may not be right."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.core.division import COMING, HELD, PASSING
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having
from stoker_sidecar.fetcher.download.node_division import Division
from stoker_sidecar.fetcher.download.parts import CHUNK, PartFile
from stoker_sidecar.fetcher.download.wishes import Wish
from stoker_sidecar.version.piece_maps import PieceMap
from stoker_sidecar.wire.fetcher_protocol import Reached
from tests.support.divided_version import DividedVersion, PlayedNeighbours, open_divided
from tests.support.waiting import eventually

HALF = CHUNK // 2
CONTENT = {"model": bytes(CHUNK) + b"\1" * HALF}
A = "a:1"


@dataclass
class Halving(PlayedNeighbours):
    """A neighbour that gives half of a piece, and the rest, or nothing more, as the test says."""

    goes_on: "asyncio.Queue[bool]" = field(default_factory=asyncio.Queue)

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        content = self.gives(peer, ask)
        assert isinstance(content, bytes)
        await asyncio.to_thread(write, content[:HALF])
        if not await self.goes_on.get():
            return Came.NOTHING
        await asyncio.to_thread(write, content[HALF:])
        return Came.WHOLE


class Passing:
    """A node that takes the first piece of a file from ``a:1``, to which its source sends it."""

    def __init__(self, version: DividedVersion, *, passing: bool = True) -> None:
        self.version = version
        self.neighbour = Halving(version.gives)
        having = version.others(Division(version.digest, (A,), 0), self.neighbour)
        self.ino = version.entry("model").ino
        having.by_peer[A] = Having(b"", 1, {self.ino: PieceMap(f"{self.ino}.00000000", bytes([COMING, 0]))})
        copies = version.copies(having)
        copies.ask(Wish(version.entry("model"), 0), A, lambda _: None, passing=passing)

    @property
    def part(self) -> PartFile:
        return self.version.fetching.version.parts[self.ino]

    @property
    def told(self) -> bytes:
        return self.version.fetching.coming.told(self.part)

    async def past(self, known: int) -> Reached:
        return await self.version.fetching.coming.past(self.part.path.name, 0, known)

    async def begun(self) -> None:
        await eventually(lambda: self.ino in self.version.fetching.version.parts and bool(self.part.incoming))


@pytest.fixture
async def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DividedVersion]:
    monkeypatch.setattr("stoker_sidecar.fetcher.download.coming_pieces._SOON", 0.02)
    async with open_divided(tmp_path, CONTENT) as opened:
        yield opened


@pytest.fixture
async def passing(version: DividedVersion) -> Passing:
    found = Passing(version)
    await found.begun()
    return found


async def test_others_hear_that_it_comes_and_how_much_is_here(passing: Passing) -> None:
    assert passing.told == bytes([PASSING, 0])
    assert await passing.past(0) == Reached(HALF)


async def test_its_last_byte_is_told_once_it_is_whole(passing: Passing) -> None:
    assert await passing.past(0) == Reached(HALF)
    passing.neighbour.goes_on.put_nowait(True)
    found = await passing.past(HALF)
    assert found in (Reached(CHUNK - 1), Reached(CHUNK))
    assert await passing.past(CHUNK - 1) == Reached(CHUNK)
    assert passing.told == bytes([HELD, 0])


async def test_who_has_some_of_what_breaks_off_is_told(passing: Passing) -> None:
    assert await passing.past(0) == Reached(HALF)
    asking = asyncio.create_task(passing.past(HALF))
    passing.neighbour.goes_on.put_nowait(False)
    assert await asking == Reached(-1, restarts=1)
    assert passing.told == bytes(2)


async def test_what_a_reader_has_come_from_the_source_begins_anew(passing: Passing) -> None:
    assert await passing.past(0) == Reached(HALF)
    asking = asyncio.create_task(passing.past(HALF))
    await passing.version.fetching.read(passing.ino, 0, 10)
    assert (await asking).restarts == 1


async def test_nobody_hears_of_what_nobody_is_to_have_from_here(version: DividedVersion) -> None:
    taking = Passing(version, passing=False)
    await taking.begun()
    assert taking.told == bytes(2)

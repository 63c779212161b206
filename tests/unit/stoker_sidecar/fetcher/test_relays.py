"""Of whom a node takes a piece that comes to others, and whether others have it from here."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.core.division import COMING, HAD, PASSING, PIECES, Sharers, VersionTurns
from stoker_sidecar.fetcher.download.neighbours import Came, Having
from stoker_sidecar.fetcher.download.node_division import Division
from stoker_sidecar.fetcher.download.others_shares import OthersShares
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.fetcher.download.pieces_left import PiecesLeft
from stoker_sidecar.fetcher.download.relays import Relay, Relays
from stoker_sidecar.fetcher.download.wishes import Wish
from stoker_sidecar.version.piece_maps import PieceMap
from tests.support.divided_version import DividedVersion, PlayedNeighbours, open_divided

# Four pieces, of which each of four nodes fetches one.
CONTENT = {"model": bytes(4 * CHUNK)}
A, B, C = "a:1", "b:1", "c:1"


class Taking:
    """The last of four nodes. Nothing is left to begin but what a test says."""

    def __init__(self, version: DividedVersion) -> None:
        self.version = version
        self.entry = version.entry("model")
        self.division = Division(version.digest, (A, B, C), 3)
        self.having = version.others(self.division, PlayedNeighbours(version.gives))
        self.copies = version.copies(self.having)
        self.relays = Relays(self.copies)
        self.own: list[tuple[int, int]] = []

    def said(self, **pieces: list[int]) -> None:
        """Have the others say this of the file."""
        for peer in (A, B, C):
            marks = PieceMap(f"{self.entry.ino}.00000000", bytes(pieces.get(peer[0], [])))
            self.having.by_peer[peer] = Having(b"", 1, {self.entry.ino: marks})

    def next(self) -> Relay | None:
        files = bytearray(self.version.fetching.version.manifest.last_ino + 1)
        files[self.entry.ino] = PIECES
        sharers = Sharers(3, 4, {0, 1, 2})
        turns, others = (
            VersionTurns(bytes(files), {self.entry.ino: bytes(range(4))}),
            OthersShares(self.division, self.version.clock),
        )
        alive = {A, B, C}
        left = PiecesLeft(self.version.fetching, turns, sharers, sharers.takes(), alive, others, self.copies)
        return self.relays.next(left, self.own)

    def relay(self, chunk: int, giver: str, *, passing: bool) -> Relay:
        return Relay(Wish(self.entry, chunk), giver, passing)


@pytest.fixture
async def taking(tmp_path: Path) -> AsyncIterator[Taking]:
    async with open_divided(tmp_path, CONTENT) as version:
        yield Taking(version)


async def test_while_all_are_sent_something_it_is_taken_from_its_node_and_passed_to_nobody(taking: Taking) -> None:
    taking.said(a=[COMING], b=[0, COMING], c=[0, 0, COMING])
    taking.own = [(taking.entry.ino, 3)]
    assert taking.next() == taking.relay(0, A, passing=False)


async def test_who_has_yet_to_begin_counts_as_one_that_is_sent_something(taking: Taking) -> None:
    taking.said(a=[COMING])
    assert taking.next() == taking.relay(0, A, passing=False)


async def test_a_line_that_is_free_passes_on_what_comes_to_one_that_is_not(taking: Taking) -> None:
    taking.said(a=[COMING, HAD, HAD, HAD], b=[PASSING])
    assert taking.next() == taking.relay(0, B, passing=True)


async def test_who_is_to_pass_it_on_is_waited_for(taking: Taking) -> None:
    taking.said(a=[COMING, HAD, HAD, HAD])
    assert taking.next() is None
    taking.version.now += 0.9
    assert taking.next() is None


async def test_who_does_not_pass_it_on_is_passed_over(taking: Taking) -> None:
    taking.said(a=[COMING, HAD, HAD, HAD])
    assert taking.next() is None
    taking.version.now += 1.0
    assert taking.next() == taking.relay(0, A, passing=True)


async def test_each_is_asked_once_for_a_piece(taking: Taking) -> None:
    taking.said(a=[COMING, HAD, HAD, HAD], b=[PASSING])
    assert taking.next() is not None
    assert taking.next() is None


async def test_whose_relays_break_off_again_and_again_is_asked_for_none(taking: Taking) -> None:
    taking.said(a=[COMING, HAD, HAD, HAD], b=[PASSING])
    for _ in range(2):
        taking.relays.ended(B, Came.NOTHING)
    assert taking.next() is None
    taking.relays.ended(B, Came.WHOLE)
    assert taking.next() is not None

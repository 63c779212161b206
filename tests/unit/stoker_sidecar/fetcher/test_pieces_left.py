"""Which pieces of large files are to come from the source, which from others, and in which order."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_api.node_dataset import EVERYTHING
from stoker_sidecar.fetcher.core.division import COMING, HAD, HELD, PASSING, PIECES, Sharers, VersionTurns
from stoker_sidecar.fetcher.core.lanes import Lane
from stoker_sidecar.fetcher.core.source_share import SourceShare
from stoker_sidecar.fetcher.download.given_copies import GivenCopies
from stoker_sidecar.fetcher.download.neighbours import Came, Having
from stoker_sidecar.fetcher.download.node_division import PATIENCE, Division
from stoker_sidecar.fetcher.download.others_having import OthersHaving
from stoker_sidecar.fetcher.download.others_shares import OthersShares
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.fetcher.download.pieces_left import PiecesLeft
from stoker_sidecar.fetcher.download.wishes import Wish
from stoker_sidecar.version.piece_maps import PieceMap
from tests.support.divided_version import DividedVersion, PlayedNeighbours, open_divided
from tests.support.waiting import eventually

# Two files of four pieces each, of which the last one is short, and a small file beside them.
CONTENT = {"model-0": bytes(3 * CHUNK + CHUNK // 2), "model-1": b"\1" * (3 * CHUNK + CHUNK // 2), "small": b"content"}
A = "a:1"


class Left:
    """What is left to the first of two nodes, where ``a:1`` is the other; pieces take turns 0, 1, 0, 1."""

    def __init__(self, version: DividedVersion, share: SourceShare | None = None, position: int = 0) -> None:
        self.version = version
        self.division = Division(version.digest, (A,), position, share=share or SourceShare())
        self.neighbours = PlayedNeighbours(version.gives)
        self.having: OthersHaving = version.others(self.division, self.neighbours)
        self.copies: GivenCopies = version.copies(self.having)
        self.others = OthersShares(self.division, version.clock)
        self.alive = {A}

    def pieces(self) -> PiecesLeft:
        manifest = self.version.fetching.version.manifest
        files = bytearray(manifest.last_ino + 1)
        for path in ("model-0", "model-1"):
            files[self.version.entry(path).ino] = PIECES
        turns = VersionTurns(bytes(files), {ino: bytes([0, 1, 0, 1]) for ino, turn in enumerate(files) if turn})
        sharers = Sharers(self.division.position, 2, {1 - self.division.position})
        return PiecesLeft(self.version.fetching, turns, sharers, sharers.takes(), self.alive, self.others, self.copies)

    def said(self, path: str, pieces: bytes) -> None:
        """Have the other node say this of one file."""
        ino = self.version.entry(path).ino
        before = self.having.by_peer.get(A, Having(b"", 1))
        self.having.by_peer[A] = Having(b"", 1, {**before.pieces, ino: PieceMap(f"{ino}.0", pieces)})

    def named(self, wishes: list[Wish]) -> list[tuple[str, int | None]]:
        path_of = self.version.fetching.version.manifest.path_of
        return [(path_of(entry), chunk) for entry, chunk in wishes]

    @property
    def own(self) -> list[tuple[str, int | None]]:
        return self.named([*self.pieces().own()])

    @property
    def given(self) -> list[tuple[str, int | None]]:
        return self.named([*self.pieces().given()])

    def yet_to_begin(self, most: int = 10) -> tuple[str, int | None] | None:
        found = self.pieces().yet_to_begin(most)
        return None if found is None else self.named([found])[0]


@pytest.fixture
async def version(tmp_path: Path) -> AsyncIterator[DividedVersion]:
    async with open_divided(tmp_path, CONTENT) as opened:
        yield opened


@pytest.fixture
def left(version: DividedVersion) -> Left:
    return Left(version)


ALL_OWN = [("model-0", 0), ("model-0", 2), ("model-1", 0), ("model-1", 2)]


async def test_those_of_this_nodes_turns_come_from_the_source_in_order(left: Left) -> None:
    assert (left.own, left.given) == (ALL_OWN, [])


async def test_what_another_node_has_comes_from_there_whosever_turn_it_is(left: Left) -> None:
    left.said("model-0", bytes([HAD, HAD, 0, 0]))
    assert left.own == ALL_OWN[1:]
    assert left.given == [("model-0", 0), ("model-0", 1)]


async def test_what_a_whole_file_there_holds_comes_from_there(left: Left) -> None:
    left.having.by_peer[A] = Having(left.version.files(["model-1"]), 1)
    assert (left.own, left.given) == (ALL_OWN[:2], [("model-1", chunk) for chunk in range(4)])


async def test_who_may_not_be_asked_for_pieces_gives_none(left: Left) -> None:
    left.said("model-0", bytes([HAD] * 4))
    left.version.fetching.context.givers.gave_wrong_piece(A)
    assert (left.own, left.given) == (ALL_OWN, [])


async def test_each_node_begins_elsewhere_in_a_file_with_what_others_give(version: DividedVersion) -> None:
    left = Left(version, SourceShare(EVERYTHING // 2, EVERYTHING // 2))
    for path in ("model-0", "model-1"):
        left.said(path, bytes([HAD] * 4))
    assert left.given == [(path, chunk) for path in ("model-0", "model-1") for chunk in (2, 3, 0, 1)]


async def test_what_is_here_is_not_asked_for(left: Left) -> None:
    # The last one: nothing is fetched ahead of who reads that.
    await left.version.node.read(left.version.digest, left.version.entry("model-0").ino, 3 * CHUNK, 3)
    left.said("model-0", bytes([HAD, 0, 0, HAD]))
    assert left.own == ALL_OWN[1:]
    assert left.given == [("model-0", 0)]


async def test_a_file_that_is_whole_is_left_out(left: Left) -> None:
    entry = left.version.entry("model-0")
    await left.version.node.read(left.version.digest, entry.ino, 0, entry.size)
    await eventually(lambda: not left.version.fetching.version.is_missing(entry.ino))
    assert left.own == ALL_OWN[2:]


async def test_what_is_on_its_way_from_the_source_is_not_asked_for(left: Left) -> None:
    entry = left.version.entry("model-0")
    task = left.version.fetching.start(entry, 2, Lane.WARM)
    assert task is not None
    assert left.own == [ALL_OWN[0], *ALL_OWN[2:]]
    await task


async def test_what_another_node_gives_at_the_moment_is_not_asked_for(left: Left) -> None:
    left.said("model-0", bytes([HAD, HAD, 0, 0]))
    left.copies.ask(Wish(left.version.entry("model-0"), 1), A)
    assert left.given == [("model-0", 0)]
    left.version.now += 60.0
    assert left.given == [("model-0", 0), ("model-0", 1)], "it is overdue"
    left.copies.leave_overdue()
    await eventually(lambda: len(left.copies) == 0)


async def test_what_a_node_failed_to_give_comes_from_the_source(left: Left) -> None:
    left.said("model-0", bytes([HAD, HAD, 0, 0]))
    left.neighbours.gives = lambda peer, ask: Came.WRONG
    left.neighbours.given.set()
    left.copies.ask(Wish(left.version.entry("model-0"), 1), A)
    await eventually(lambda: len(left.copies) == 0)
    assert (left.own[:2], left.given) == ([("model-0", 1), ("model-0", 2)], [("model-0", 0)])


async def test_what_comes_to_another_node_is_waited_for_and_not_for_ever(left: Left) -> None:
    left.said("model-0", bytes([COMING, 0, 0, 0]))
    assert left.own == ALL_OWN[1:]
    left.version.now += PATIENCE
    assert left.own == ALL_OWN


async def test_who_does_not_get_on_is_not_waited_for(left: Left) -> None:
    left.said("model-0", bytes([COMING, 0, 0, 0]))
    left.alive = set()
    assert left.own == ALL_OWN


async def test_where_nothing_proves_a_file_all_of_it_comes_from_the_source(tmp_path: Path) -> None:
    async with open_divided(tmp_path, CONTENT) as version:
        left = Left(version)
        left.said("model-0", bytes([HAD] * 4))
        version.fetching.from_others._unprovable.add(version.entry("model-0").ino)
        assert left.own == [*(("model-0", chunk) for chunk in range(4)), *ALL_OWN[2:]]
        assert left.given == []


async def test_what_was_doubted_comes_from_the_source(left: Left) -> None:
    entry = left.version.entry("model-0")
    await left.version.node.read(left.version.digest, entry.ino, 3 * CHUNK, 3)
    left.said("model-0", bytes([HAD] * 4))
    left.version.fetching.version.parts[entry.ino].doubted.add(1)
    assert left.own == [("model-0", 1), *ALL_OWN[2:]]
    assert left.given == [("model-0", 0), ("model-0", 2)]


async def test_a_file_that_is_all_here_and_was_not_moved_into_the_tree_is_asked_for_once_more(left: Left) -> None:
    entry = left.version.entry("model-0")
    await left.version.node.read(left.version.digest, entry.ino, 3 * CHUNK, 3)
    part = left.version.fetching.version.parts[entry.ino]
    await eventually(lambda: part.chunks[3] == 1)
    part.held |= {0, 1, 2}
    assert left.own == [("model-0", 3), *ALL_OWN[2:]]
    part.promoting = True
    assert left.own == ALL_OWN[2:]


async def test_where_all_of_such_a_file_came_from_others_its_first_piece_is(left: Left) -> None:
    entry = left.version.entry("model-0")
    await left.version.node.read(left.version.digest, entry.ino, 3 * CHUNK, 3)
    part = left.version.fetching.version.parts[entry.ino]
    await eventually(lambda: part.chunks[3] == 1)
    part.chunks[:] = bytes(4)
    part.held |= {0, 1, 2, 3}
    assert left.own == [("model-0", 0), *ALL_OWN[2:]]


async def test_of_what_another_node_has_yet_to_begin_not_its_next_one_is_taken(left: Left) -> None:
    left.having.by_peer[A] = Having(b"", 1)
    # Its own are pieces 1 and 3 of each file: this node is as far from it as can be, and takes the last one.
    assert left.yet_to_begin() == ("model-1", 3)
    assert left.yet_to_begin(1) == ("model-0", 3), "of the first file alone"


async def test_what_it_has_begun_or_has_is_not_yet_to_begin(left: Left) -> None:
    left.said("model-1", bytes([0, COMING, 0, HAD]))
    assert left.yet_to_begin() == ("model-0", 3)
    left.said("model-0", bytes([0, 0, 0, COMING]))
    assert left.yet_to_begin() is None


async def test_nobody_is_helped_with_what_is_over_at_once(tmp_path: Path) -> None:
    async with open_divided(tmp_path, {path: content[: 3 * CHUNK + 3] for path, content in CONTENT.items()}) as opened:
        left = Left(opened)
        left.having.by_peer[A] = Having(b"", 1)
        assert left.yet_to_begin() == ("model-1", 1)
        assert left.yet_to_begin(1) is None, "one piece is left beside the short one, and is the next"


async def test_who_has_yet_to_begin_is_told_by_the_first_files(left: Left) -> None:
    left.having.by_peer[A] = Having(b"", 1)
    assert left.pieces().to_begin == {0, 1}
    left.said("model-0", bytes([0, COMING, 0, HAD]))
    left.said("model-1", bytes([0, HELD, 0, PASSING]))
    assert left.pieces().to_begin == {0}


async def test_nobody_is_helped_who_does_not_get_on(left: Left) -> None:
    left.having.by_peer[A] = Having(b"", 1)
    left.alive = set()
    assert left.yet_to_begin() is None

"""Pieces of large files to fetch from the source, pieces to fetch from peers, and their order."""

import asyncio

from stoker_api.node_caches.node_dataset import EVERYTHING
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.peers.core.division import COMING, HAD
from stoker_sidecar.fetcher.peers.core.source_share import SourceShare
from stoker_sidecar.fetcher.peers.node_division import PATIENCE
from stoker_sidecar.fetcher.peers.peer_client import Having
from stoker_sidecar.fetcher.peers.peer_requests import PeerRequest
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from tests.support.divided_version import DividedVersion
from tests.support.left_pieces import ALL_OWN, MODELS, A, Left
from tests.support.waiting import eventually

CONTENT = MODELS


async def test_those_of_this_nodes_turns_come_from_the_source_in_order(left: Left) -> None:
    assert (left.own, left.given) == (ALL_OWN, [])


async def test_what_another_node_has_comes_from_there_whosever_turn_it_is(left: Left) -> None:
    left.said("model-0", bytes([HAD, HAD, 0, 0]))
    assert left.own == ALL_OWN[1:]
    assert left.given == [("model-0", 0), ("model-0", 1)]


async def test_what_a_whole_file_there_holds_comes_from_there(left: Left) -> None:
    left.having.by_peer[A] = Having(left.version.files(["model-1"]), 1)
    assert (left.own, left.given) == (ALL_OWN[:2], [("model-1", chunk) for chunk in range(4)])


async def test_a_file_that_goes_as_one_is_none_of_them(left: Left) -> None:
    left.having.by_peer[A] = Having(left.version.files(["small"]), 1)
    assert (left.own, left.given) == (ALL_OWN, [])


async def test_who_may_not_be_asked_for_pieces_gives_none(left: Left) -> None:
    left.said("model-0", bytes([HAD] * 4))
    left.version.fetching.context.givers.gave_wrong_piece(A)
    assert (left.own, left.given) == (ALL_OWN, [])


async def test_each_node_begins_elsewhere_with_what_others_give(version: DividedVersion) -> None:
    left = Left(version, SourceShare(EVERYTHING * 7 // 10, EVERYTHING // 2))
    for path in ("model-0", "model-1"):
        left.said(path, bytes([HAD] * 4))
    assert left.given == [(path, chunk) for path in ("model-1", "model-0") for chunk in (2, 3, 0, 1)]


async def test_what_comes_from_the_source_comes_in_order_wherever_this_node_begins(version: DividedVersion) -> None:
    assert Left(version, SourceShare(EVERYTHING * 7 // 10, EVERYTHING // 2)).own == ALL_OWN


async def test_what_is_here_is_not_asked_for(left: Left) -> None:
    # The last piece, which starts no readahead.
    await left.version.node.read(left.version.digest, left.version.entry("model-0").ino, 3 * CHUNK, 3)
    left.said("model-0", bytes([HAD, 0, 0, HAD]))
    assert left.own == ALL_OWN[1:]
    assert left.given == [("model-0", 0)]


async def test_a_file_that_is_whole_is_left_out(left: Left) -> None:
    entry = left.version.entry("model-0")
    await left.version.node.read(left.version.digest, entry.ino, 0, entry.size)
    await eventually(lambda: not left.version.fetching.version.states.is_missing(entry.ino))
    assert left.own == ALL_OWN[2:]


async def test_what_is_on_its_way_from_the_source_is_not_asked_for(left: Left) -> None:
    entry = left.version.entry("model-0")
    task = left.version.fetching.start(entry, 2, Lane.WARM)
    assert task is not None
    assert left.own == [ALL_OWN[0], *ALL_OWN[2:]]
    await task


async def test_what_another_node_gives_at_the_moment_is_not_asked_for(left: Left) -> None:
    left.said("model-0", bytes([HAD, HAD, 0, 0]))
    left.copies.ask(PeerRequest(left.version.entry("model-0"), 1), A)
    assert left.given == [("model-0", 0)]
    left.version.now += 60.0
    assert left.given == [("model-0", 0), ("model-0", 1)], "it is overdue"
    left.copies.leave_overdue()
    await eventually(lambda: len(left.copies) == 0)


async def test_what_comes_to_another_node_is_waited_for_and_not_for_ever(left: Left) -> None:
    left.said("model-0", bytes([COMING, 0, 0, 0]))
    assert left.own == ALL_OWN[1:]
    left.version.now += PATIENCE
    assert left.own == ALL_OWN


async def test_who_does_not_get_on_is_not_waited_for(left: Left) -> None:
    left.said("model-0", bytes([COMING, 0, 0, 0]))
    left.alive = set()
    assert left.own == ALL_OWN


async def test_a_file_that_is_all_here_and_was_not_moved_into_the_tree_is_asked_for_once_more(left: Left) -> None:
    part = await left.last_piece()
    part.held |= {0, 1, 2}
    assert left.own == [("model-0", 3), *ALL_OWN[2:]]
    part.promoting = True
    assert left.own == ALL_OWN[2:]


async def test_where_all_of_such_a_file_came_from_others_its_first_piece_is(left: Left) -> None:
    part = await left.last_piece()
    part.chunks[:] = bytes(4)
    part.held |= {0, 1, 2, 3}
    assert left.own == [("model-0", 0), *ALL_OWN[2:]]


async def test_a_file_that_is_being_proven_is_left_alone(left: Left) -> None:
    part = await left.last_piece()
    part.held |= {0, 1, 2}
    proving = asyncio.create_task(asyncio.sleep(0, True))
    left.version.downloads._settling[proving] = left.version.entry("model-0").ino
    assert left.own == ALL_OWN[2:]
    del left.version.downloads._settling[proving]
    assert left.own == [("model-0", 3), *ALL_OWN[2:]]
    await proving  # at the end, since a reader of a piece can move the file into the tree in any turn of the loop

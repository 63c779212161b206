"""Pieces that a peer failed to send, and pieces of a file that was damaged as a whole."""

from pathlib import Path

import pytest

from stoker_sidecar.fetcher.ondisk.piece_maps import Gift
from stoker_sidecar.fetcher.peers.core.division import HAD, HELD
from stoker_sidecar.fetcher.peers.peer_client import Came
from stoker_sidecar.fetcher.peers.peer_requests import PeerRequest
from tests.support.divided_version import DividedVersion, open_divided
from tests.support.left_pieces import ALL_OWN, MODELS, A, Left
from tests.support.waiting import eventually

CONTENT = MODELS


async def fail(left: Left, chunk: int, came: Came = Came.NOTHING) -> None:
    """Request a piece of the first file from the peer. It fails with ``came``."""
    left.client.gives = lambda peer, ask: came
    left.client.given.set()
    left.copies.ask(PeerRequest(left.version.entry("model-0"), chunk), A)
    await eventually(lambda: len(left.copies) == 0)


async def test_what_a_node_gave_wrong_comes_from_the_source(left: Left) -> None:
    left.said("model-0", bytes([HAD, HAD, 0, 0]))
    await fail(left, 1, Came.WRONG)
    assert (left.own[:2], left.given) == ([("model-0", 1), ("model-0", 2)], [("model-0", 0)])


async def test_what_is_another_nodes_to_fetch_is_asked_of_it_once_more(left: Left) -> None:
    left.said("model-0", bytes([HAD, HAD, 0, 0]))
    await fail(left, 1)
    assert left.given == [("model-0", 0), ("model-0", 1)]


@pytest.mark.parametrize("position", [0, 1])
async def test_what_is_this_nodes_to_fetch_is_asked_of_nobody_twice(version: DividedVersion, position: int) -> None:
    left = Left(version, position=position)
    left.said("model-0", bytes([HAD] * 4))
    await fail(left, 2 + position)  # the last piece of the file, on the second node
    assert left.own[0] == ("model-0", 2 + position)
    assert ("model-0", 2 + position) not in left.given


async def test_what_came_after_all_is_not_asked_for(left: Left) -> None:
    left.said("model-0", bytes([0, 0, 0, HAD]))
    await fail(left, 3, Came.WRONG)
    assert ("model-0", 3) in left.own
    await left.last_piece()
    assert (left.own, left.given) == (ALL_OWN, [])


async def test_what_was_doubted_comes_from_the_source(left: Left) -> None:
    part = await left.last_piece()
    left.said("model-0", bytes([HAD] * 4))
    part.doubted.add(1)
    assert left.own == [("model-0", 1), *ALL_OWN[2:]]
    assert left.given == [("model-0", 0), ("model-0", 2)]


async def test_what_was_doubted_comes_from_the_source_though_it_might_be_asked_for_once_more(left: Left) -> None:
    part = await left.last_piece()
    left.said("model-0", bytes([HAD] * 4))
    await fail(left, 1)
    part.doubted.add(1)
    assert left.own[0] == ("model-0", 1)
    assert left.given == [("model-0", 0), ("model-0", 2)]


@pytest.mark.parametrize(("said", "given"), [(HAD, [("model-0", 0)]), (HELD, [])])
async def test_a_piece_of_a_file_that_was_wrong_is_given_again_by_who_has_it_from_the_source(
    left: Left, said: int, given: list[tuple[str, int]]
) -> None:
    part = await left.last_piece()
    left.said("model-0", bytes([said, 0, 0, 0]))
    part.replaced[0] = Gift("b:1", True), b"crc"
    assert left.given == given
    assert (("model-0", 0) in left.own) is not bool(given)


async def test_what_is_here_of_a_file_that_is_not_kept_comes_once_more_from_the_source(left: Left) -> None:
    part = await left.last_piece()
    part.kept = False
    left.said("model-0", bytes([HAD] * 4))
    assert left.own == [*(("model-0", chunk) for chunk in range(4)), *ALL_OWN[2:]]


async def test_where_nothing_proves_a_file_all_of_it_comes_from_the_source(tmp_path: Path) -> None:
    async with open_divided(tmp_path, CONTENT) as version:
        left = Left(version)
        left.said("model-0", bytes([HAD] * 4))
        version.downloads._unprovable.add(version.entry("model-0").ino)
        assert left.own == [*(("model-0", chunk) for chunk in range(4)), *ALL_OWN[2:]]
        assert left.given == []

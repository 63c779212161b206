"""Pieces that this node fetches in place of a peer that has not started them."""

from pathlib import Path

from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.peers.core.division import COMING, HAD
from stoker_sidecar.fetcher.peers.peer_client import Having
from tests.support.divided_version import open_divided
from tests.support.left_pieces import MODELS, A, Left

CONTENT = MODELS


async def test_of_what_another_node_has_yet_to_begin_not_its_next_one_is_taken(left: Left) -> None:
    left.having.by_peer[A] = Having(b"", 1)
    # The peer's own pieces are 1 and 3 of each file. This node is at the largest distance, and takes the last one.
    assert left.yet_to_begin() == ("model-1", 3)
    assert left.yet_to_begin(1) == ("model-0", 3), "of the first file alone"


async def test_what_it_has_begun_or_has_is_not_yet_to_begin(left: Left) -> None:
    left.said("model-1", bytes([0, COMING, 0, HAD]))
    assert left.yet_to_begin() == ("model-0", 3)
    left.said("model-0", bytes([0, 0, 0, COMING]))
    assert left.yet_to_begin() is None


async def test_nobody_is_helped_with_what_is_over_at_once(tmp_path: Path) -> None:
    async with open_divided(tmp_path, {path: content[: 3 * CHUNK + 3] for path, content in MODELS.items()}) as opened:
        left = Left(opened)
        left.having.by_peer[A] = Having(b"", 1)
        assert left.yet_to_begin() == ("model-1", 1)
        assert left.yet_to_begin(1) is None, "one piece is left beside the short one, and is the next"


async def test_nobody_is_helped_who_does_not_get_on(left: Left) -> None:
    left.having.by_peer[A] = Having(b"", 1)
    left.alive = set()
    assert left.yet_to_begin() is None


async def test_what_is_here_is_not_fetched_to_help(left: Left) -> None:
    left.having.by_peer[A] = Having(b"", 1)
    await left.version.node.read(left.version.digest, left.version.entry("model-1").ino, 3 * CHUNK, 3)
    assert left.yet_to_begin() == ("model-1", 1)


async def test_who_was_contradicted_is_not_believed_that_it_has_yet_to_begin(left: Left) -> None:
    left.having.by_peer[A] = Having(b"", 1)
    left.version.fetching.context.givers.contradicted(A)
    assert left.yet_to_begin() is None

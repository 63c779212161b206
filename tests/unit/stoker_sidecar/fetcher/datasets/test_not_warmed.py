"""A node that fetches nothing more of a version sends its files to peers, and no peer waits for it."""

from pathlib import Path

from stoker_sidecar.wire.fetcher_protocol import NOT_WARMED
from tests.support.cache_node import inode
from tests.support.divided_nodes import FILES, NAMES, Linked, begin, nodes, whole


async def test_a_node_that_has_all_of_it_from_earlier_gives_it_to_one_that_is_to_have_it(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        await begin(first, digest, 0, 1)
        await whole(first)
        before = len(first.store.gets)
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        await first.configure(listingId="1", version=digest, eager=False, peers=[NAMES[1]])
        await begin(second, digest, 1)
        await whole(second)
        assert len(second.store.gets) == before


async def test_what_its_readers_fetch_is_no_progress_for_which_others_would_wait(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, FILES, count=1) as ((node,), digest):
        linked.nodes = {NAMES[0]: node}
        await node.read(digest, inode(node, digest, "train/150"), 0, 50_000)
        said = await linked.having(NAMES[0], 0)
        assert said is not None
        assert (said.choice, said.files.count(1)) == (NOT_WARMED, 1)

"""With compressed copies, a node packs files from peers, and uses the freed room."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.peers.peer_client import Having, PeerClient
from stoker_sidecar.wire.fetcher_hints import FileKnobs, PackingKnobs, Tune
from tests.support.cache_node import UID, fill, inode, open_cache_node
from tests.support.divided_version import PlayedPeers

SIZE = 39 * 946
TEXT = {f"text/{number:02}.csv": b"%07d,some,words,and,some,words,more\n" % number * 946 for number in range(20)}


async def test_what_did_not_fit_while_the_rest_came_is_fetched_once_the_copies_left_room(tmp_path: Path) -> None:
    client = PlayedPeers(
        lambda peer, ask: TEXT[ask.path][ask.offset : ask.offset + ask.length],
        {"a:1": Having(b"\1" * 1000, sum(map(len, TEXT.values())))},
    )
    client.given.set()

    @asynccontextmanager
    async def meet(folder: Path | None, uid: str, digest: str, names: Mapping[str, str]) -> AsyncIterator[PeerClient]:
        yield client

    async with open_cache_node(tmp_path, meet=meet) as node:
        fill(node.store, TEXT)
        digest = await node.list()
        node.node.tune(Tune(UID, digest, (FileKnobs(packing=PackingKnobs(3, 2.0, tried=False)),)))
        # Four uncompressed files fit at a time, and all of them as copies.
        await node.configure(listingId="1", version=digest, eager=True, quotaBytes=4 * SIZE, peers=["a:1"], position=1)
        await node.reach(lambda status: status.phase in (NodePhase.FULL, NodePhase.WARM))
        assert (len(node.copies(digest)), node.tree(digest)) == (len(TEXT), {})
        assert node.store.gets == []
        for path, content in TEXT.items():
            assert await node.read(digest, inode(node, digest, path), 0, SIZE) == content

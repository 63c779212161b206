"""A peer may be slow, busy or silent. Nodes wait for it for a bounded time, and readers not at all."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.ondisk.piece_maps import PieceMap
from stoker_sidecar.fetcher.peers.core.division import COMING
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having
from tests.support.cache_node import inode
from tests.support.divided_nodes import (
    ALL,
    FILES,
    NAMES,
    ONE,
    SHARDS,
    Alone,
    Linked,
    begin,
    nodes,
    whole,
    whole_in_time,
)
from tests.support.waiting import eventually


async def test_a_peer_with_endless_promises_of_pieces_is_given_up(tmp_path: Path) -> None:
    claims = {ino: PieceMap(f"{ino}.00000000", bytes([COMING]) * 9) for ino in range(1, 10)}
    async with nodes(tmp_path, Alone(Having(b"", 1, claims)), ONE, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        assert node.tree(digest) == ONE


async def test_a_peer_with_progress_but_no_pieces_is_given_up(tmp_path: Path) -> None:
    class Growing(Alone):
        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            self.given += 1
            return Having(b"", self.given)

    async with nodes(tmp_path, Growing(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
async def test_files_of_a_stalled_peer_come_from_the_source(tmp_path: Path, content: dict[str, bytes]) -> None:
    class Stalling(Alone):
        async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
            await asyncio.Event().wait()
            return Came.NOTHING

    async with nodes(tmp_path, Stalling(ALL), content, count=1) as ((node,), digest):
        await begin(node, digest, 0)

        def all_here() -> bool:
            node.clock.ahead += 0.1
            return node.status().warm_files == len(content)

        await eventually(all_here, 30.0)
        assert node.tree(digest) == content


async def test_a_busy_peer_gets_another_request(tmp_path: Path) -> None:
    class Busy(Linked):
        async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
            came = await super().bring(peer, ask, write) if len(self.asked) % 3 else Came.BUSY
            self.asked.append((peer, ask))
            return came

    linked = Busy()
    async with nodes(tmp_path, linked, FILES) as ((first, second), digest):
        await first.configure(listingId="1", version=digest, eager=True)
        await whole(first)
        linked.nodes, asked = {NAMES[0]: first}, len(first.store.gets)
        await begin(second, digest, 1)
        await whole(second)
        assert len(first.store.gets) == asked


async def test_a_reader_does_not_wait_for_the_share_of_a_peer(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: node.status().warm_files >= len(FILES) // 2 - 16)
        cold = min(FILES.keys() - node.tree(digest).keys())
        assert await node.read(digest, inode(node, digest, cold), 0, 50_000) == FILES[cold]
        assert node.status().phase is NodePhase.WARMING


async def test_a_reader_does_not_wait_for_a_piece_of_a_slow_peer(tmp_path: Path) -> None:
    class Stalling(Alone):
        async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
            self.asked.append((peer, ask))
            await asyncio.to_thread(write, b"\xff" * 1000)
            await asyncio.Event().wait()
            return Came.NOTHING

    stalling = Stalling(ALL)
    async with nodes(tmp_path, stalling, ONE, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: bool(stalling.asked))
        offset = stalling.asked[0][1].offset
        read = await node.read(digest, inode(node, digest, "model"), offset, 2000)
        assert read == ONE["model"][offset : offset + 2000]

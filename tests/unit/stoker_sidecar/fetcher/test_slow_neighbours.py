"""Another node may be slow, busy or silent: nobody waits for it for ever, and readers not at all."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_api.nodecache import NodePhase
from stoker_sidecar.fetcher.core.division import COMING
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having
from stoker_sidecar.version.piece_maps import PieceMap
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


async def test_who_says_for_ever_that_pieces_come_to_it_is_not_waited_for_as_long(tmp_path: Path) -> None:
    claims = {ino: PieceMap(f"{ino}.00000000", bytes([COMING]) * 9) for ino in range(1, 10)}
    async with nodes(tmp_path, Alone(Having(b"", 1, claims)), ONE, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)
        assert node.tree(digest) == ONE


async def test_one_that_seems_to_get_on_and_gives_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    class Growing(Alone):
        async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
            self.given += 1
            return Having(b"", self.given)

    async with nodes(tmp_path, Growing(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await whole_in_time(node)


@pytest.mark.parametrize("content", [FILES, SHARDS], ids=["small files", "shards"])
async def test_what_another_node_does_not_give_in_time_is_asked_of_the_source(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
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


async def test_one_that_is_busy_is_asked_again(tmp_path: Path) -> None:
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


async def test_a_reader_of_what_another_node_is_to_fetch_waits_for_nobody(tmp_path: Path) -> None:
    async with nodes(tmp_path, Alone(None), FILES, count=1) as ((node,), digest):
        await begin(node, digest, 0)
        await eventually(lambda: node.status().warm_files >= len(FILES) // 2 - 16)
        cold = min(FILES.keys() - node.tree(digest).keys())
        assert await node.read(digest, inode(node, digest, cold), 0, 50_000) == FILES[cold]
        assert node.status().phase is NodePhase.WARMING


async def test_a_reader_of_a_piece_that_another_node_gives_waits_for_nobody(tmp_path: Path) -> None:
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

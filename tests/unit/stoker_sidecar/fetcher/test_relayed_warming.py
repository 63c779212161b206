"""Nodes that warm one version take pieces from each other while the source still sends them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.fetcher.core.division import COMING
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.store.base import Body, in_chunks
from stoker_sidecar.version.piece_maps import PieceMap
from stoker_sidecar.wire.fetcher_protocol import PEER_BYTES, PEER_WRONG
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import inode
from tests.support.divided_nodes import (
    NAMES,
    ONE,
    Alone,
    Linked,
    begin,
    count_of,
    nodes,
    whole,
    whole_in_time,
)
from tests.support.waiting import eventually

_BLOCK = 2**20


@dataclass
class Halting(MemoryStore):
    """Sends the second half of a large piece only once another node was asked for it.

    ``breaks``: the first attempt at the first piece sends wrong bytes, and breaks off then.
    """

    linked: Linked = field(default_factory=Linked)
    breaks: bool = False

    @asynccontextmanager
    async def get_range(self, path: str, offset: int, length: int, **more: Any) -> AsyncIterator[Body]:
        async with super().get_range(path, offset, length, **more):
            breaking, self.breaks = self.breaks and offset == 0, self.breaks and offset != 0
            content = self.objects[path][0][offset : offset + length]
            yield Body(in_chunks(self._halves(bytes(length) if breaking else content, offset, breaking)))

    async def _halves(self, content: bytes, offset: int, breaking: bool) -> AsyncIterator[bytes]:
        for at in range(0, len(content), _BLOCK):
            if at == CHUNK // 2:
                await eventually(lambda: offset in self.linked.offsets(), 30.0)
                if breaking:
                    raise CorruptBody("the body broke off")
            yield content[at : at + _BLOCK]


@pytest.mark.parametrize("count", [2, 3])
async def test_a_piece_is_taken_while_it_comes(tmp_path: Path, count: int) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, ONE, count, Halting(linked=linked)) as (found, digest):
        linked.nodes = dict(zip(NAMES, found, strict=False))
        await asyncio.gather(*(begin(node, digest, at, count) for at, node in enumerate(found)))
        await asyncio.gather(*map(whole, found))
        assert sum(get.length for get in found[0].store.gets) == len(ONE["model"])
        assert all(node.tree(digest) == ONE for node in found)


@pytest.mark.expected_logs("CorruptBody")
async def test_who_gave_what_was_spoilt_on_its_way_and_began_anew_is_not_called_wrong(tmp_path: Path) -> None:
    linked = Linked()
    async with nodes(tmp_path, linked, ONE, store=Halting(linked=linked, breaks=True)) as ((first, second), digest):
        linked.nodes = dict(zip(NAMES, (first, second), strict=False))
        await asyncio.gather(begin(first, digest, 0), begin(second, digest, 1))
        await asyncio.gather(whole(first), whole(second))
        assert [count_of(node, PEER_WRONG) for node in (first, second)] == [0, 0]
        assert first.tree(digest) == second.tree(digest) == ONE


class Claiming(Alone):
    """A neighbour that says for ever that the first piece of the only file comes to it."""

    ino = 0

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        return Having(b"", 1, {self.ino: PieceMap(f"{self.ino}.00000000", bytes([COMING]) + bytes(8))})


class Stalling(Claiming):
    """One that gives the first bytes alone."""

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        self.asked.append((peer, ask))
        await asyncio.to_thread(write, b"\xff" * 1000)
        await asyncio.Event().wait()
        return Came.NOTHING


@pytest.mark.parametrize("claiming", [Stalling(None), Claiming(None)], ids=["stalls", "knows nothing of it, or fails"])
async def test_what_does_not_come_to_its_end_is_asked_for_once(tmp_path: Path, claiming: Claiming) -> None:
    async with nodes(tmp_path, claiming, ONE, count=1) as ((node,), digest):
        claiming.ino = inode(node, digest, "model")
        await begin(node, digest, 1)
        await eventually(lambda: bool(claiming.asked))
        await whole_in_time(node)
        assert node.tree(digest) == ONE
        assert [ask.offset for _, ask in claiming.asked] == [0]


async def test_who_gives_a_wrong_piece_while_it_comes_is_found(tmp_path: Path) -> None:
    liar = Claiming(None, b"\xff")
    async with nodes(tmp_path, liar, ONE, count=1) as ((node,), digest):
        liar.ino = inode(node, digest, "model")
        await begin(node, digest, 1)
        await eventually(lambda: count_of(node, PEER_BYTES) > 0)
        await whole_in_time(node)
        assert (count_of(node, PEER_WRONG), node.tree(digest)) == (1, ONE)

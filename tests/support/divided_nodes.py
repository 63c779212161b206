"""Nodes in one process that warm a version at the same time, connected with each other or with a lying peer."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import NotYetConfigured
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.ondisk.piece_maps import unpack_maps
from stoker_sidecar.fetcher.peers.core.division import HAD, HELD
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having, PeerClient
from stoker_sidecar.wire.fetcher_protocol import InventoryQuery
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.played_files import GivesTogether
from tests.support.waiting import eventually

FILES = {f"train/{number:03}": bytes([number]) * 50_000 for number in range(200)}
SHARDS = {f"shard-{number}": bytes([number]) * (CHUNK + 5) for number in range(3)}
ONE = {"model": b"".join(bytes([number]) * CHUNK for number in range(4)) + b"end"}
NAMES = ("a:1", "b:1", "c:1")
ALL = Having(b"\1" * 10_000, 10**9)


class Linked(GivesTogether):
    """Peers that are CacheNodes of this process. ``mangle`` changes the bytes that they send.

    ``gives`` is the number of small files per request.
    """

    def __init__(self, mangle: Callable[[Ask, bytes], bytes] = lambda ask, content: content, *, gives: int = 0) -> None:
        super().__init__()
        self._gives_together = gives
        self.nodes: dict[str, CacheNodeUnderTest] = {}
        self.given = 0
        self.asked: list[tuple[str, Ask]] = []
        self._mangle = mangle

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        try:
            had = await self.nodes[peer].node.have_more(InventoryQuery(UID, self.nodes[peer].status().version, after))
        except (KeyError, NotYetConfigured):
            return None
        pieces = unpack_maps(had.pieces)
        return Having(zlib.decompress(had.files), had.arrived, pieces, had.choice, had.number, self._gives_together)

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        self.asked.append((peer, ask))
        folder = self.nodes[peer].folder(self.nodes[peer].status().version)
        whole = self.nodes[peer].folder(self.nodes[peer].status().version) / "tree" / ask.path
        if not whole.is_file() and ask.part and not await self._has(peer, ask):
            return Came.ABSENT
        found = [path for path in (folder / "tree" / ask.path, folder / "parts" / (ask.part or "-")) if path.is_file()]
        if not found:
            return Came.ABSENT
        # the piece alone: reading a whole file for each piece took seconds under load
        with found[0].open("rb") as file:
            file.seek(ask.offset)
            content = file.read(ask.length)
        await asyncio.to_thread(write, self._mangle(ask, content))
        self.given += 1
        return Came.WHOLE

    async def _has(self, peer: str, ask: Ask) -> bool:
        """Return True if a node has a piece of an incomplete file, by the same check as its agent."""
        having = await self.having(peer, 0)
        maps = having.pieces.values() if having is not None else ()
        return any(one.name == ask.part and one.pieces[ask.offset // CHUNK] in (HAD, HELD) for one in maps)


class Alone(Linked):
    """A peer with arbitrary inventory and bytes."""

    def __init__(self, having: Having | None, gives: bytes | None = None) -> None:
        super().__init__()
        self._having = having
        self._gives = gives

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        return self._having

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        self.asked.append((peer, ask))
        if self._gives is None:
            return Came.NOTHING
        await asyncio.to_thread(write, (self._gives * ask.length)[: ask.length])
        return Came.WHOLE


class Taken(Alone):
    """A compromised node with all of ``content``, which sends the result of ``lie`` for each piece."""

    def __init__(
        self, content: dict[str, bytes], lie: Callable[[Ask, bytes], bytes], having: Having | None = ALL
    ) -> None:
        super().__init__(having)
        self._content = content
        self._lie = lie

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        self.asked.append((peer, ask))
        piece = self._content[ask.path][ask.offset : ask.offset + ask.length]
        await asyncio.to_thread(write, self._lie(ask, piece))
        return Came.WHOLE


@asynccontextmanager
async def nodes(
    folder: Path,
    client: PeerClient,
    content: dict[str, bytes],
    count: int = 2,
    store: MemoryStore | None = None,
    capacity: int | None = None,
    *,
    standing: bool = False,
) -> AsyncIterator[tuple[list[CacheNodeUnderTest], str]]:
    """Open nodes of one bucket that know the version, with its digest. With ``standing``, no node loses patience."""

    @asynccontextmanager
    async def meet(folder: Path | None, uid: str, digest: str, names: Mapping[str, str]) -> AsyncIterator[PeerClient]:
        yield client

    store = MemoryStore() if store is None else store
    fill(store, content)
    async with AsyncExitStack() as stack:
        found = []
        for name in NAMES[:count]:
            node = open_cache_node(folder / name, {"bucket": store}, meet=meet, capacity=capacity)
            found.append(await stack.enter_async_context(node))
        digests = [await node.list() for node in found]
        for opened in found:
            await opened.configure(listingId="1", version=digests[0])
            await opened.reach(lambda status: status.phase is NodePhase.IDLE)
            if standing:
                opened.clock.stop()
        yield found, digests[0]


async def begin(node: CacheNodeUnderTest, digest: str, position: int, count: int = 2, **more: Any) -> None:
    """Warm it up, shared with the peers."""
    peers = [name for name in NAMES[:count] if name != NAMES[position]]
    entry: dict[str, Any] = {"listingId": "1", "peers": peers, "position": position} | more
    await node.configure(version=digest, eager=True, **entry)


async def whole(node: CacheNodeUnderTest) -> None:
    await eventually(lambda: node.status().phase is NodePhase.WARM, 30.0)


async def paths_whole(node: CacheNodeUnderTest) -> None:
    await eventually(lambda: node.status().phase is NodePhase.PATHS_WARM, 30.0)


async def whole_in_time(node: CacheNodeUnderTest) -> None:
    """Wait for it while time passes quickly."""

    def is_whole() -> bool:
        node.clock.ahead += 1.0
        return node.status().phase is NodePhase.WARM

    await eventually(is_whole, 30.0)


def count_of(node: CacheNodeUnderTest, name: str) -> int:
    return sum(count.value for count in node.node.progress().counts if count.name == name)

"""Several nodes of one process that warm a version at the same time, linked with each other or with one that lies."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from stoker_api.nodecache import NodePhase
from stoker_sidecar.errors import NotYetConfigured
from stoker_sidecar.fetcher.core.division import HAD, HELD
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having, Neighbours
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.version.piece_maps import unpack_maps
from stoker_sidecar.wire.fetcher_protocol import Have, Reach
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.played_files import GivesTogether
from tests.support.waiting import eventually

FILES = {f"train/{number:03}": bytes([number]) * 50_000 for number in range(200)}
SHARDS = {f"shard-{number}": bytes([number]) * (2 * CHUNK + 5) for number in range(3)}
ONE = {"model": b"".join(bytes([number]) * CHUNK for number in range(8)) + b"end"}
NAMES = ("a:1", "b:1", "c:1")
ALL = Having(b"\1" * 10_000, 10**9)


class Linked(GivesTogether):
    """Neighbours that are other CacheNodes of this process. ``mangle``: what becomes of what they give.

    ``gives``: so many small files by one request.
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
            had = await self.nodes[peer].node.have_more(Have(UID, self.nodes[peer].status().version, after))
        except (KeyError, NotYetConfigured):
            return None
        pieces = unpack_maps(had.pieces)
        return Having(zlib.decompress(had.files), had.arrived, pieces, had.choice, had.number, self._gives_together)

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        self.asked.append((peer, ask))
        folder = self.nodes[peer].folder(self.nodes[peer].status().version)
        whole = self.nodes[peer].folder(self.nodes[peer].status().version) / "tree" / ask.path
        if not whole.is_file() and ask.part and not await self._comes(peer, ask):
            return Came.NOTHING
        found = [path for path in (folder / "tree" / ask.path, folder / "parts" / (ask.part or "-")) if path.is_file()]
        if not found:
            return Came.ABSENT
        content = found[0].read_bytes()[ask.offset : ask.offset + ask.length]
        await asyncio.to_thread(write, self._mangle(ask, content))
        self.given += 1
        return Came.WHOLE

    def offsets(self) -> set[int]:
        """Where what was asked for begins."""
        return {ask.offset for _, ask in self.asked}

    async def _comes(self, peer: str, ask: Ask) -> bool:
        """Wait for a piece that may be on its way to a node, as its agent does."""
        node, piece = self.nodes[peer], ask.offset // CHUNK
        having = await self.having(peer, 0)
        maps = having.pieces.values() if having is not None else ()
        if any(one.name == ask.part and one.pieces[piece] in (HAD, HELD) for one in maps):
            return True
        here, restarts = 0, 0
        while here < ask.length:
            found = await node.node.reach(Reach(UID, node.status().version, ask.part, piece, here))
            if found.here <= here or (here and found.restarts != restarts):
                return False
            here, restarts = found.here, found.restarts
        return True


class Alone(Linked):
    """A neighbour that says and gives what it likes."""

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


@asynccontextmanager
async def nodes(
    folder: Path,
    neighbours: Neighbours,
    content: dict[str, bytes],
    count: int = 2,
    store: MemoryStore | None = None,
    capacity: int | None = None,
) -> AsyncIterator[tuple[list[CacheNodeUnderTest], str]]:
    """Open nodes of one bucket that know the version, with its digest."""

    @asynccontextmanager
    async def meet(folder: Path | None, uid: str, digest: str) -> AsyncIterator[Neighbours]:
        yield neighbours

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
        yield found, digests[0]


async def begin(node: CacheNodeUnderTest, digest: str, position: int, count: int = 2, **more: Any) -> None:
    """Have it warmed up, divided with the others."""
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

"""One version of a node whose neighbours are played, for tests of what a divided pass of warming is made of."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stoker_api.nodecache import NodePhase
from stoker_sidecar.fetcher.core.concurrency import AdaptiveLimit
from stoker_sidecar.fetcher.core.lanes import WarmSlots
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.given_copies import GivenCopies
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having
from stoker_sidecar.fetcher.download.node_division import Division
from stoker_sidecar.fetcher.download.others_having import OthersHaving
from stoker_sidecar.fetcher.download.warming import WarmLimits
from stoker_sidecar.version.manifest import Entry
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.played_files import GivesTogether


@dataclass
class PlayedNeighbours(GivesTogether):
    """Neighbours that give what ``gives`` says, once ``given`` is set; ``says``: what each says that it has."""

    gives: Callable[[str, Ask], bytes | Came | Exception]
    says: dict[str, Having | None] = field(default_factory=dict)
    asked: list[tuple[str, Ask]] = field(default_factory=list)
    questions: list[tuple[str, int, int]] = field(default_factory=list)  # who, inodes, after which number
    given: asyncio.Event = field(default_factory=asyncio.Event)
    together: list[list[str]] = field(default_factory=list)

    async def having(self, peer: str, inodes: int, after: int = -1) -> Having | None:
        self.questions.append((peer, inodes, after))
        return self.says.get(peer)

    async def bring(self, peer: str, ask: Ask, write: Callable[[bytes], None]) -> Came:
        self.asked.append((peer, ask))
        await self.given.wait()
        found = self.gives(peer, ask)
        if isinstance(found, Exception):
            raise found
        if isinstance(found, Came):
            return found
        await asyncio.to_thread(write, found)
        return Came.WHOLE


@dataclass
class DividedVersion:
    """A version of which nothing is here, and what a pass over it knows of others at second ``now``.

    ``ended``: of each copy that others gave, whether it came. ``naps``: seconds that were slept.
    """

    node: CacheNodeUnderTest
    fetching: Fetching
    content: dict[str, bytes] = field(repr=False)
    digest: str
    now: float = 1000.0
    ended: list[bool] = field(default_factory=list)
    naps: list[float] = field(default_factory=list)

    def entry(self, path: str) -> Entry:
        found = self.fetching.version.manifest.find(path)
        assert found is not None
        return found

    def limits(self) -> WarmLimits:
        slots = WarmSlots(self.clock, AdaptiveLimit(4, 4, 4))
        return WarmLimits(UID, slots, None, asyncio.Event(), self.clock, self.sleep)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        await asyncio.sleep(0)

    def others(self, division: Division, neighbours: PlayedNeighbours | None, inodes: int = 100) -> OthersHaving:
        return OthersHaving(division, self.limits(), self.fetching.context.givers, neighbours, inodes)

    def copies(self, having: OthersHaving) -> GivenCopies:
        return GivenCopies(self.fetching, having, self.clock, self.ended.append)

    def gives(self, peer: str, ask: Ask) -> bytes:
        """Return the right bytes."""
        return self.content[ask.path][ask.offset : ask.offset + ask.length]

    def files(self, paths: Iterable[str]) -> bytes:
        """Return a byte an inode: 1 for these files."""
        marked = bytearray(self.fetching.version.manifest.last_ino + 1)
        for path in paths:
            marked[self.entry(path).ino] = 1
        return bytes(marked)


@asynccontextmanager
async def open_divided(folder: Path, content: dict[str, bytes]) -> AsyncIterator[DividedVersion]:
    """Open a node that knows a version of these files, and has fetched nothing of it."""
    async with open_cache_node(folder) as node:
        fill(node.store, content)
        digest = await node.list()
        await node.configure(listingId="1", version=digest)
        await node.reach(lambda status: status.phase is NodePhase.IDLE)
        fetching = node.node._datasets[UID].versions.fetchings[digest]
        yield DividedVersion(node, fetching, content, digest)

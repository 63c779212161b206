"""One version of a node with simulated peers, for tests of the parts of a shared warm pass."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.warming import WarmLimits
from stoker_sidecar.fetcher.peers.node_division import Division
from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, Having
from stoker_sidecar.fetcher.peers.peer_downloads import PeerDownloads
from stoker_sidecar.fetcher.peers.peer_file_fetcher import PeerFileFetcher
from stoker_sidecar.fetcher.peers.peer_inventories import PeerInventories
from stoker_sidecar.fetcher.sources.core.concurrency import AdaptiveLimit
from stoker_sidecar.fetcher.sources.core.lanes import WarmSlots
from stoker_sidecar.version.manifest import Entry
from tests.support.cache_node import UID, CacheNodeUnderTest, fill, open_cache_node
from tests.support.played_files import GivesTogether


@dataclass
class PlayedPeers(GivesTogether):
    """Peers that send ``gives`` when ``given`` is set. ``says`` is the inventory of each."""

    gives: Callable[[str, Ask], bytes | Came | Exception]
    says: dict[str, Having | None] = field(default_factory=dict)
    asked: list[tuple[str, Ask]] = field(default_factory=list)
    questions: list[tuple[str, int, int]] = field(default_factory=list)  # peer, inodes, first number
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
    """A version without local files, and the peer data of a pass over it at second ``now``.

    ``ended`` has the result of each copy from a peer. ``naps`` has the sleeps in seconds.
    """

    node: CacheNodeUnderTest
    fetching: Fetching
    downloads: PeerDownloads
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

    def others(self, division: Division, client: PlayedPeers | None, inodes: int = 100) -> PeerInventories:
        return PeerInventories(division, self.limits(), self.fetching.context.givers, client, inodes)

    def copies(self, having: PeerInventories) -> PeerFileFetcher:
        return PeerFileFetcher(self.fetching, self.downloads, having, self.clock, self.ended.append)

    def gives(self, peer: str, ask: Ask) -> bytes:
        """Return the right bytes."""
        return self.content[ask.path][ask.offset : ask.offset + ask.length]

    def files(self, paths: Iterable[str]) -> bytes:
        """Return a byte per inode: 1 for these files."""
        marked = bytearray(self.fetching.version.manifest.last_ino + 1)
        for path in paths:
            marked[self.entry(path).ino] = 1
        return bytes(marked)


@asynccontextmanager
async def open_divided(folder: Path, content: dict[str, bytes]) -> AsyncIterator[DividedVersion]:
    """Open a node with a version of these files, of which it has fetched nothing."""
    async with open_cache_node(folder) as node:
        fill(node.store, content)
        digest = await node.list()
        await node.configure(listingId="1", version=digest)
        await node.reach(lambda status: status.phase is NodePhase.IDLE)
        versions = node.node._datasets[UID].versions
        yield DividedVersion(node, versions.fetchings[digest], versions.peer_downloads[digest], content, digest)

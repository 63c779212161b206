"""Dependencies of the parts of the fetcher: clocks and stores, state of the node's datasets, state of versions."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from stoker_api.backoff import BackoffPolicy
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_sidecar.fetcher.download.context import DownloadSettings
from stoker_sidecar.fetcher.ondisk.recovery.repairs import Repairs
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures
from stoker_sidecar.fetcher.pages.page_cache import PageCache, memory_now
from stoker_sidecar.fetcher.peers.peer_client import Meet, meet_by_tls
from stoker_sidecar.fetcher.sources.core.lanes import WarmSlots
from stoker_sidecar.fetcher.sources.origin_gate import OriginGate
from stoker_sidecar.fetcher.sources.piece_sources import InProcess, PieceFetcher
from stoker_sidecar.fetcher.space.budget import Evictor
from stoker_sidecar.fetcher.space.cache_disk import space_of
from stoker_sidecar.fetcher.space.folders import CacheDisks
from stoker_sidecar.store.core.source_refusal import DenialsOfNode, SourceRefusals
from stoker_sidecar.store.opening import OpenStore, StoreHandle
from stoker_sidecar.wire.config.disk_floor import DiskSpace
from stoker_sidecar.wire.credentials import Credentials

LISTINGS_AT_ONCE = 4  # of one namespace: 128 MiB of pages at most, and a slow store does not hold up the next Dataset
# A dataset with a failed source retries automatically, at most a minute after the source recovers.
_DATASET_BACKOFF = BackoffPolicy(base=1.0, cap=60.0)


@dataclass(frozen=True)
class NodeDependencies:
    """Clocks, randomness, stores and disks, so that tests can replace them. ``open_store``: None for the default."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    now: Callable[[], float] = time.time
    uniform: Callable[[], float] = random.random
    backoff: BackoffPolicy = _DATASET_BACKOFF
    open_store: OpenStore | None = None
    fetcher: PieceFetcher = field(default_factory=InProcess)
    meet: Meet = meet_by_tls
    space: Callable[[Path], DiskSpace] = space_of
    memory: Callable[[], MemoryFigures] = memory_now


class ListingSlots:
    """Limits the parallel listings of one namespace. Each holds two pages in memory, of up to 16 MiB.

    Namespaces do not wait for each other.
    """

    def __init__(self, at_once: int = LISTINGS_AT_ONCE) -> None:
        self._at_once: Final = at_once
        # A namespace is forgotten when its last listing ends.
        self._slots: Final[WeakValueDictionary[str, asyncio.Semaphore]] = WeakValueDictionary()

    async def run(self, namespace: str, step: Callable[[], Awaitable[None]]) -> None:
        """Run ``step`` when its turn comes. Raises its errors."""
        slot = self._slots.setdefault(namespace, asyncio.Semaphore(self._at_once))
        async with slot:
            await step()


@dataclass(frozen=True)
class NodeContext:
    """State that all datasets of the node share. ``news`` is set when the agent must be notified at once."""

    outside: NodeDependencies
    open_store: OpenStore
    folders: CacheDisks
    evictor: Evictor
    slots: WarmSlots
    listings: ListingSlots
    downloads: DownloadSettings
    news: asyncio.Event
    pages: PageCache
    gate: OriginGate
    repairs: Repairs
    refusals: SourceRefusals = field(default_factory=SourceRefusals)
    denials: DenialsOfNode = field(default_factory=DenialsOfNode)

    def handle(self, config: NodeDataset, credentials: Credentials) -> StoreHandle:
        """Return a new connection to the source of a dataset. Datasets with equal sources share refusals."""
        refusal = self.refusals.of(config.source, credentials)
        denials = self.denials.of(config.source, credentials)
        return StoreHandle(config.source, credentials, self.open_store, refusal, denials)

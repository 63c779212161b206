"""What the parts of the fetcher are given: clocks and stores, what datasets of a node share, what versions share."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from stoker_api.backoff import BackoffPolicy
from stoker_sidecar.fetcher.core.givers import Givers
from stoker_sidecar.fetcher.core.lanes import WarmSlots
from stoker_sidecar.fetcher.core.page_room import MemoryFigures
from stoker_sidecar.fetcher.core.version_tuning import DatasetTuning
from stoker_sidecar.fetcher.download.neighbours import Meet, meet_by_tls
from stoker_sidecar.fetcher.download.origin_gate import OriginGate
from stoker_sidecar.fetcher.download.piece_sources import InProcess, PieceFetcher, PieceSource
from stoker_sidecar.fetcher.download.pipeline import Pipeline
from stoker_sidecar.fetcher.download.policy import PolicyFactory
from stoker_sidecar.fetcher.page_cache import PageCache, memory_now
from stoker_sidecar.fetcher.space.budget import Evictor
from stoker_sidecar.fetcher.space.cache_disk import space_of
from stoker_sidecar.fetcher.space.folders import CacheDisks
from stoker_sidecar.fetcher.telemetry import Telemetry
from stoker_sidecar.store.base import Retry
from stoker_sidecar.store.opening import OpenStore
from stoker_sidecar.wire.disk_floor import DiskSpace

# Half the cores, and few of many: pods compute on them. Other work of this process needs its threads, too.
_PACKERS = min(4, max(1, (os.cpu_count() or 1) // 2))
_GIVEN = 32  # files and pieces, of all datasets
LISTINGS_AT_ONCE = 4  # of one namespace: 128 MiB of pages at most, and a slow store does not hold up the next Dataset
# A dataset whose source fails goes on by itself when the source heals, at most a minute later.
_DATASET_BACKOFF = BackoffPolicy(base=1.0, cap=60.0)


@dataclass(frozen=True)
class NodeDependencies:
    """Clocks, chance, stores and disks, so that tests can pass in others. ``open_store``: None for the product's."""

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


@dataclass(frozen=True)
class DownloadSettings:
    """What downloads are made with.

    ``transient_limit``: bytes of files that are read through and not kept, per version. ``peers``: the folder in which
    the agent leaves what other nodes know this one by; None: they are not asked. ``neighbours``: they are asked for
    files, too. ``last_files``: of a version that lacks little they are fetched unasked. ``packers``: so many compressed
    copies are made at a time. ``given``: so much is taken from other nodes at a time.
    """

    pipeline: Pipeline
    retry: Retry
    policy: PolicyFactory
    transient_limit: int
    peers: Path | None = None
    neighbours: bool = True
    last_files: bool = True
    packers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_PACKERS))
    given: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_GIVEN))


class ListingSlots:
    """How many listings of one namespace may run at once: so many pages lie in memory, 16 MiB and the next one each.

    Those of different namespaces do not wait for each other, however long they take.
    """

    def __init__(self, at_once: int = LISTINGS_AT_ONCE) -> None:
        self._at_once: Final = at_once
        # A namespace is forgotten when nobody of it lists.
        self._slots: Final[WeakValueDictionary[str, asyncio.Semaphore]] = WeakValueDictionary()

    async def run(self, namespace: str, step: Callable[[], Awaitable[None]]) -> None:
        """Run ``step`` once it is its turn; raises what that raises."""
        slot = self._slots.setdefault(namespace, asyncio.Semaphore(self._at_once))
        async with slot:
            await step()


@dataclass(frozen=True)
class NodeContext:
    """What all datasets of the node share. ``news`` is set when the agent should be told at once."""

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


@dataclass(frozen=True)
class DownloadContext:
    """What the versions of one dataset share. ``sources`` are asked in turn.

    ``changed`` is called when a version has become whole, or has lost a file. ``tuning``: how files are treated.
    ``givers``: what other nodes were seen to give.
    """

    sources: Sequence[PieceSource]
    telemetry: Telemetry
    settings: DownloadSettings
    changed: Callable[[], None]
    givers: Givers
    tuning: DatasetTuning = field(default_factory=DatasetTuning)

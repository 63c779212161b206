"""One dataset on this node: brings the disk towards the NodeCache.

Two independent loops: one lists, and one gets the manifest, drops old versions and warms. Reads arrive concurrently and
share only the versions.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial

from stoker_api.datasets.dataset import PeerProof
from stoker_api.log_lines import log_subject
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import ListingResult
from stoker_sidecar.errors import InUse, PathsTakeTooLong, SidecarError, WarmListInvalid
from stoker_sidecar.fetcher.datasets.dataset_listing import DatasetListing
from stoker_sidecar.fetcher.datasets.dataset_loop import DatasetLoop, soonest
from stoker_sidecar.fetcher.datasets.dataset_room import DatasetRoom
from stoker_sidecar.fetcher.datasets.dataset_warming import DatasetWarming
from stoker_sidecar.fetcher.datasets.node_context import NodeContext
from stoker_sidecar.fetcher.datasets.versions import OpenVersions
from stoker_sidecar.fetcher.datasets.wanted_versions import VersionErrors, WantedVersions
from stoker_sidecar.fetcher.download.context import DownloadContext
from stoker_sidecar.fetcher.download.core.failing_reads import FailingReadTimer
from stoker_sidecar.fetcher.download.core.peer_scores import PeerScores
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.telemetry import Telemetry
from stoker_sidecar.fetcher.ondisk.version_tuning import DatasetTuning, VersionTuning
from stoker_sidecar.fetcher.pages.mounted_pages import MountedPages, WarmingPages
from stoker_sidecar.fetcher.sources.piece_sources import StorePieceSource
from stoker_sidecar.fetcher.space.budget import SpaceBudget
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import ROOT_INO
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_protocol import DEMAND_READS, Read, ReadDone

_OF_PATHS = (PathsTakeTooLong, WarmListInvalid)  # errors of the paths to warm


class DatasetCache:
    """One dataset on this node. ``start`` once, then ``configure`` and ``read`` at will, ``close`` at last.

    ``versions``: the open ones. ``wanted``: those that the plan wants. ``warming``: their warm-up. ``errors``: by
    version.
    """

    def __init__(self, node: NodeContext, config: NodeDataset, credentials: Credentials) -> None:
        self.uid = config.uid
        self.telemetry = Telemetry(node.outside.clock())
        self.failing_reads = FailingReadTimer()
        self._node = node
        self._tasks: set[asyncio.Task[None]] = set()
        name, backoff = f"dataset {config.namespace}/{config.name}", node.outside.backoff
        listing = partial(node.listings.run, config.namespace, self._list_step)
        self.list_loop = DatasetLoop(f"{name}, listing", listing, backoff)
        self.version_loop = DatasetLoop(name, self._version_step, backoff)
        self._source = StorePieceSource(node.handle(config, credentials), node.outside.fetcher, node.gate)
        self.budget = SpaceBudget(config, node.folders, wake=self.version_loop.poke)
        self._tuning = DatasetTuning()
        self.versions = OpenVersions(node.folders, self.budget, self._download_context(), node.repairs)
        self._listing = DatasetListing(node, config.uid, self._source, self.versions, self.telemetry)
        self._pages = MountedPages(node.pages, self.versions.fetchings, self._tuning, self.telemetry)
        self.warmed_pages = WarmingPages(node.pages, self.telemetry)
        self._room = DatasetRoom(self.budget, self.versions, node.evictor, self.telemetry)
        self.errors = VersionErrors(self.budget)
        self.wanted = WantedVersions(node, self.budget, self.versions, self._listing, self.errors)
        self.warming = DatasetWarming(node, self.budget, self.versions, self._room, self.version_loop, self.errors)

    def _download_context(self) -> DownloadContext:
        return DownloadContext(
            self._source,
            self.telemetry,
            self._node.downloads,
            self.version_loop.poke,
            PeerScores(self._node.outside.clock),
            self._tuning,
            lambda: self.config.groups.proof is PeerProof.CHECKSUM,
            self.failing_reads,
        )

    async def start(self) -> None:
        """Begin to work."""
        with log_subject(uid=self.uid, namespace=self.config.namespace, dataset=self.config.name):
            await self._listing.load()
            await in_thread(self.budget.last_use.load)
            for loop in (self.list_loop, self.version_loop):
                self._spawn(loop.run())

    def configure(self, config: NodeDataset, credentials: Credentials, volumes: Mapping[str, int]) -> None:
        """Apply the desired state; an equal one changes nothing. ``volumes``: numbers of volumes, by digest."""
        held = self._pages.mounted(volumes)
        if not self._source.handle.serves(config.source, credentials):
            self._renew_source(config, credentials)
        elif (config, held) == (self.config, self.held):
            return
        if (config.version, config.warm_paths) != (self.config.version, self.config.warm_paths):
            self.version_loop.forget_error(_OF_PATHS)
        if held or self.held:
            self.budget.last_use.use()
        self.warming.configure(config)
        self.budget.config, self.budget.held = config, held
        self._listing.want(config.listing_id)
        self.list_loop.poke()
        self.version_loop.poke()

    def _renew_source(self, config: NodeDataset, credentials: Credentials) -> None:
        """Use another connection from now on, and close the old one when its requests in flight have landed."""
        self._spawn(self._retire(self._source.handle))
        self._source.handle = self._node.handle(config, credentials)
        self._source.shortest = None
        self.failing_reads.renewed(self._node.outside.clock())
        for fetching in self.versions.fetchings.values():
            fetching.renewed()

    def tune(self, digest: str, tuning: VersionTuning) -> None:
        """Set the tuning of a version. Its warm-up restarts in the new order."""
        self._pages.tune(digest, tuning)
        if (fetching := self.versions.fetchings.get(digest)) is not None and not fetching.version.complete:
            fetching.version.states.forget(State.UNKEPT)
            self.version_loop.poke()

    async def read(self, request: Read) -> ReadDone:
        """Bring bytes of any version that this node has. Raises SidecarError.

        The root's inode stands for the version itself: the answer is the path of its tree.
        """
        fetching = await self.opened(request.digest)
        if request.ino == ROOT_INO:
            return ReadDone("tree", str(fetching.version.paths.tree))
        return await fetching.read(request.ino, request.offset, request.length, doubt=request.doubt)

    async def opened(self, digest: str) -> Fetching:
        """Return a version that this node has. Open it if needed. Raises SidecarError."""
        return self.versions.fetchings.get(digest) or await self.wanted.open(digest)

    def note_reader(self) -> None:
        """Note a request of a reader."""
        self.budget.last_use.use()
        self.telemetry.add(DEMAND_READS)

    async def look(self) -> None:
        """Leave versions whose folder is gone or failed.

        They restart in a different folder, or in the same one when it is back.
        """
        await in_thread(self.budget.last_use.save)
        if await self.versions.leave_lost():
            if self.listing is not None and not self.versions.has(self.listing.version):
                self._listing.forget()  # its manifest is lost: the node that listed lists again
                self.list_loop.poke()
            self.version_loop.poke()
        await self.versions.drop_copies()
        await self.warming.sync_arrivals()
        if self.warming.last_files_due():
            self.version_loop.poke()

    @property
    def config(self) -> NodeDataset:
        """The settings that the operator sent."""
        return self.budget.config

    @property
    def list_error(self) -> SidecarError | None:
        """The error of the listing, or the reason for its pause."""
        return self._listing.waiting or self.list_loop.error

    @property
    def listing(self) -> ListingResult | None:
        """The result of its last listing on this node."""
        return self._listing.result

    @property
    def held(self) -> frozenset[str]:
        """Digests that pods of this node have mounted."""
        return self.budget.held

    @property
    def current(self) -> CachedVersion | None:
        """The version that new mounts get, once it is open."""
        fetching = self.versions.fetchings.get(self.config.version)
        return fetching.version if fetching is not None else None

    @property
    def readers(self) -> int:
        """Reads that wait for bytes."""
        return sum(version.waiting_readers for version in self.budget.versions.values())

    @property
    def source_seconds(self) -> float | None:
        """Seconds of the shortest request for a piece; None before the first one."""
        return self._source.shortest

    @property
    def held_back(self) -> bool:
        """Whether its source is asked for less than it might be, by a share or since it said SlowDown."""
        return self._node.gate.holds_back(self._source.handle.origin)

    async def close(self) -> None:
        """Stop all work. Files on the disk stay."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.versions.close()
        await self._source.retire(self._source.handle)

    async def remove(self) -> Callable[[], None]:
        """Stop, and take everything from the disk; the result deletes it and may take long. Raises InUse."""
        if self.held:
            raise InUse(f"dataset {self.config.namespace}/{self.config.name} is mounted on this node: unmount it first")
        await self.close()
        return self._node.folders.discard(self.uid)

    async def _list_step(self) -> None:
        if await self._listing.bring(self.config):
            self.version_loop.poke()

    async def _version_step(self) -> float | None:
        await self._room.give_if_asked()
        await self.wanted.open_mounted()
        if not self.config.version:
            return None
        older = await self.wanted.open_older()
        fetching = await self.wanted.open(self.config.version)
        self._pages.look()
        await self.wanted.drop_unused()
        await self.wanted.open_retained()
        # Before the current one: pods wait for these.
        delays = [await self.warming.bring_older(one) for one in older]
        delays.append(await self.warming.bring(fetching))
        await self.warmed_pages.look(self.config, fetching.version)
        return soonest(*delays)

    async def _retire(self, handle: StoreHandle) -> None:
        await asyncio.gather(*(fetching.drain() for fetching in self.versions.fetchings.values()))
        await self._source.retire(handle)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

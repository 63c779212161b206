"""The agent's current state: the operator's plan, the fetcher's progress, and each dataset's credentials."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stoker_api.datasets.cache_memory import NodeMemory
from stoker_api.datasets.dataset import ObservePolicy
from stoker_api.datasets.origin import NodeOrigin, OriginShare
from stoker_api.meta import Condition, read_bounded
from stoker_api.names import ANNOTATION_OBSERVE, ANNOTATION_TUNING
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_storage import CacheFolder, NodeMount
from stoker_api.node_caches.nodecache import REPORT_SECONDS, NodeCache
from stoker_api.node_caches.peers import PeerCertificate
from stoker_sidecar.agent.core.disk_figures import DiskFigures
from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_hints import Tune
from stoker_sidecar.wire.fetcher_protocol import Count, Notice, OriginCounts, Progress


class NodePlan:
    """The agent's state of its node, shared by the agent's tasks. Only the event loop uses it. ``clock``: seconds.

    Until the fetcher reports a dataset, its last written row counts, so that a warm node does not look empty after a
    restart.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_name: dict[tuple[str, str], NodeDataset] = {}
        self._from_fetcher = False
        self.changes = Changes()
        self.synced = False  # the first list from the API server is complete
        self.generation: int | None = None  # None: no NodeCache exists
        self.cache_uid = ""
        self.observed = True  # False if an administrator turned observation off on this node
        self.tuned = True  # False if an administrator turned tuning off
        self.unobserved: frozenset[str] = frozenset()  # UIDs of datasets whose reads are not observed
        self.datasets: tuple[NodeDataset, ...] = ()
        self.keep_unlisted = True  # unplanned datasets stay on the disk
        self.keep: frozenset[str] = frozenset()  # UIDs of unplanned datasets that stay
        self.report_seconds = REPORT_SECONDS
        self.peer = PeerCertificate()  # this node's certificate for peers
        self.rows: dict[str, NodeDatasetStatus] = {}
        self.conditions: tuple[Condition, ...] = ()  # as last written
        self.told_mounts: tuple[NodeMount, ...] | None = None  # as the previous agent wrote them; None: not read
        self.on_disk: frozenset[str] = frozenset()
        self.orphans: Mapping[
            str, tuple[str, ...]
        ] = {}  # versions on the disk of datasets without a command for the fetcher
        self.disk = DiskFigures()
        self.folders: tuple[CacheFolder, ...] = ()  # the preferred one first
        self.counts: tuple[Count, ...] = ()  # since the fetcher started
        self.notices: tuple[Notice, ...] = ()  # of the fetcher, the oldest first
        self.memory = NodeMemory()  # memory that Datasets use
        self.cpus = ""  # CPUs of the fetcher
        self.shares: tuple[OriginShare, ...] = ()  # this node's shares of requests to object stores
        self.origins: tuple[NodeOrigin, ...] = ()  # current requests to object stores
        self.origin_counts = OriginCounts()
        self.source_rates: Mapping[str, int] = {}  # of unlimited warm-ups, bytes per second by UID
        self.fetcher_connected = False
        self._fetcher_since = clock()
        self.credentials: dict[str, Credentials] = {}
        self.tunings: dict[VersionKey, Tune] = {}  # knobs of files, by version
        self._kept: dict[str, frozenset[str]] = {}

    # Updates.

    def take_node_cache(self, cache: NodeCache) -> None:
        """Take a NodeCache."""
        self.generation, self.cache_uid = cache.metadata.generation, cache.metadata.uid
        self.observed = cache.metadata.annotations.get(ANNOTATION_OBSERVE) != ObservePolicy.OFF
        self.tuned = cache.metadata.annotations.get(ANNOTATION_TUNING) != ObservePolicy.OFF
        self.datasets = cache.spec.datasets
        self.shares = cache.spec.origins
        self.keep_unlisted, self.keep = cache.spec.keep_unlisted, frozenset(cache.spec.keep)
        self.report_seconds = cache.spec.report_seconds
        self.peer = cache.spec.peer
        self.unobserved = frozenset(row.uid for row in self.datasets if row.observe is ObservePolicy.OFF)
        self._by_name = {(dataset.namespace, dataset.name): dataset for dataset in self.datasets}
        written = {row.uid: row for row in cache.status.datasets}
        if not self._from_fetcher:
            self.rows, self.on_disk = written, frozenset(written)
            status = cache.status
            self.disk = DiskFigures(status.capacity_bytes, status.used_bytes, status.available_bytes)
            self.folders = status.cache_folders
        elif not self.synced:  # the fetcher connected first and has no plan
            self.rows = {uid: row for uid, row in written.items() if uid in self.on_disk} | self.rows
        self.conditions = self.conditions or cache.status.conditions
        if self.told_mounts is None:
            self.told_mounts = cache.status.mounts
        self.credentials = {uid: one for uid, one in self.credentials.items() if uid in self.planned}
        self.changes.mark()

    def set_synced(self) -> None:
        """Note that the first list from the API server is complete."""
        self.synced = True
        self.changes.mark()

    def lose_node_cache(self) -> None:
        """Note that the NodeCache was deleted.

        Serving continues, and no dataset is cleaned: only a plan can declare a dataset unwanted.
        """
        self.generation = None
        self.changes.mark()

    def take_progress(self, progress: Progress) -> None:
        """Take the fetcher's figures. Raises ProtocolError if they are malformed."""
        rows = [_row(wire) for wire in progress.datasets]
        known = {uid: row for uid, row in self.rows.items() if uid in self.planned or uid in progress.orphans}
        self.rows = known | {row.uid: row for row in rows}
        self.on_disk = frozenset(row.uid for row in rows) | frozenset(progress.orphans)
        self.orphans = progress.orphans
        self.disk = DiskFigures(progress.capacity_bytes, progress.used_bytes, progress.available_bytes)
        self.folders = tuple(_folder(wire) for wire in progress.folders)
        self.counts, self.notices = progress.counts, progress.notices
        self.memory, self.cpus = _memory(progress.memory), progress.cpus
        self.origins = tuple(_origin(wire) for wire in progress.origins)
        self.origin_counts = progress.origin_counts
        self.source_rates = progress.source_rates
        self._from_fetcher = True
        self.changes.mark()

    def forget(self, uid: str) -> None:
        """Note that the fetcher has removed a dataset."""
        self.rows.pop(uid, None)
        self.on_disk -= {uid}
        self.changes.mark()

    def take_credentials(self, uid: str, credentials: Credentials) -> None:
        """Take a dataset's credentials."""
        if self.credentials.get(uid) != credentials:
            self.credentials[uid] = credentials
            self.changes.mark()

    def take_kept(self, uid: str, digests: Iterable[str]) -> None:
        """Set the versions of a dataset that the fetcher surely keeps."""
        self._kept[uid] = frozenset(digests)

    def take_tuning(self, order: Tune) -> bool:
        """Set the knobs for the files of a version. Return True if they changed."""
        key = order.uid, order.digest
        if self.tunings.get(key, Tune(*key)) == order:
            return False
        self.tunings = {key: one for key, one in self.tunings.items() if key[0] in self.planned} | {key: order}
        self.changes.mark()
        return True

    def set_fetcher_connected(self, connected: bool) -> None:
        """Note that the fetcher connected or disconnected. Its kept versions are unknown until it confirms commands."""
        self._kept.clear()
        if connected != self.fetcher_connected:
            self.fetcher_connected, self._fetcher_since = connected, self._clock()
        self.changes.mark()

    # Queries.

    def is_observed(self, uid: str) -> bool:
        """Return True if reads of a dataset may be observed."""
        return self.observed and uid not in self.unobserved

    def fetcher_age(self) -> float:
        """Return the seconds since the fetcher connected or disconnected."""
        return self._clock() - self._fetcher_since

    @property
    def planned(self) -> Mapping[str, NodeDataset]:
        """The plan by uid."""
        return {dataset.uid: dataset for dataset in self.datasets}

    @property
    def inventory(self) -> bool:
        """Whether ``rows`` and ``on_disk`` come from the fetcher's view of the cache folders."""
        return self._from_fetcher

    @property
    def leftovers(self) -> frozenset[str]:
        """Uids on the disk and in no plan."""
        return self.on_disk - self.planned.keys()

    @property
    def kept(self) -> frozenset[str]:
        """Leftovers that stay until the operator decides."""
        return self.leftovers if self.keep_unlisted else self.leftovers & self.keep

    def in_service(self, root: Path) -> bool:
        """Return False if the fetcher reported a cache folder as failed."""
        return all(folder.healthy for folder in self.folders if folder.path == str(root))

    def find(self, namespace: str, name: str) -> NodeDataset | None:
        """Return the dataset's entry in the plan."""
        return self._by_name.get((namespace, name))

    def name_of(self, uid: str) -> str:
        """Return a dataset's NAMESPACE/NAME; empty if it is not planned."""
        return next((f"{one.namespace}/{one.name}" for one in self.datasets if one.uid == uid), "")

    def namespace_of(self, uid: str) -> str:
        """Return a dataset's namespace; empty if it is not planned."""
        return self.name_of(uid).partition("/")[0]

    def keeps(self, uid: str, digest: str) -> bool:
        """Return True if the fetcher surely keeps this version."""
        return digest in self._kept.get(uid, ())

    def status_of(self, uid: str) -> NodeDatasetStatus | None:
        """Return a dataset's last row."""
        return self.rows.get(uid)

    async def wait_change(self, deadline: float) -> None:
        """Wait for the next change, until ``deadline`` of the clock at most."""
        await self.changes.wait(timeout=max(0.0, deadline - self._clock()))


def _folder(wire: Mapping[str, Any]) -> CacheFolder:
    try:
        return read_bounded(CacheFolder, wire)
    except ValidationError as error:
        raise ProtocolError(f"the fetcher sent a cache folder that cannot be read: {error}") from error


def _memory(wire: Mapping[str, Any]) -> NodeMemory:
    try:
        return NodeMemory.model_validate(wire)
    except ValidationError as error:
        raise ProtocolError(f"the fetcher sent figures of memory that cannot be read: {error}") from error


def _origin(wire: Mapping[str, Any]) -> NodeOrigin:
    try:
        return read_bounded(NodeOrigin, wire)
    except ValidationError as error:
        raise ProtocolError(f"the fetcher sent an origin that cannot be read: {error}") from error


def _row(wire: Mapping[str, Any]) -> NodeDatasetStatus:
    try:
        return read_bounded(NodeDatasetStatus, wire)
    except ValidationError as error:
        raise ProtocolError(f"the fetcher sent a dataset that cannot be read: {error}") from error

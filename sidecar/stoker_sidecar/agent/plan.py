"""What the agent knows at this moment: the operator's plan, the fetcher's progress, and each dataset's credentials."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stoker_api.cache_memory import NodeMemory
from stoker_api.dataset import ObservePolicy
from stoker_api.meta import Condition
from stoker_api.names import ANNOTATION_OBSERVE, ANNOTATION_TUNING
from stoker_api.node_dataset import NodeDataset
from stoker_api.node_storage import CacheFolder
from stoker_api.nodecache import REPORT_SECONDS, NodeCache, NodeDatasetStatus
from stoker_api.origin import NodeOrigin, OriginShare
from stoker_sidecar.agent.core.status import DiskFigures
from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.wire.fetcher_protocol import Count, Notice, OriginCounts, Progress, Tune


class NodePlan:
    """What the agent knows of its node: the one place that its tasks share; only the event loop touches it.

    ``clock`` counts seconds.

    Until the fetcher has said something of a dataset, its row of the last written status stands, so that a restart does
    not make a warm node look empty.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_name: dict[tuple[str, str], NodeDataset] = {}
        self._from_fetcher = False
        self.changes = Changes()
        self.synced = False  # the API server has said whether there is a NodeCache
        self.generation: int | None = None  # None: there is no NodeCache (yet)
        self.cache_uid = ""
        self.observed = True  # unless an administrator said Off of this node
        self.tuned = True  # likewise
        self.unobserved: frozenset[str] = frozenset()  # UIDs of datasets at whose reads nobody may look
        self.datasets: tuple[NodeDataset, ...] = ()
        self.keep_unlisted = True  # nothing is removed from the disk because no plan names it
        self.keep: frozenset[str] = frozenset()  # UIDs of what is not removed either
        self.report_seconds = REPORT_SECONDS
        self.rows: dict[str, NodeDatasetStatus] = {}
        self.conditions: tuple[Condition, ...] = ()  # as they were written last
        self.on_disk: frozenset[str] = frozenset()
        self.orphans: Mapping[str, tuple[str, ...]] = {}  # versions on the disk of what the fetcher was not told of
        self.disk = DiskFigures()
        self.folders: tuple[CacheFolder, ...] = ()  # the preferred one first
        self.counts: tuple[Count, ...] = ()  # since the fetcher started
        self.notices: tuple[Notice, ...] = ()  # of the fetcher, the oldest first
        self.memory = NodeMemory()  # what Datasets keep there
        self.cpus = ""  # what the fetcher runs on
        self.shares: tuple[OriginShare, ...] = ()  # what may be asked of object stores
        self.origins: tuple[NodeOrigin, ...] = ()  # what is asked of them
        self.origin_counts = OriginCounts()
        self.source_rates: Mapping[str, int] = {}  # of warm-ups that nothing else limits, bytes a second by UID
        self.fetcher_connected = False
        self._fetcher_since = clock()
        self.credentials: dict[str, Credentials] = {}
        self.tunings: dict[VersionKey, Tune] = {}  # how files of versions are to be treated
        self._kept: dict[str, frozenset[str]] = {}

    # What others tell.

    def take_node_cache(self, cache: NodeCache) -> None:
        """Take a NodeCache that was read."""
        self.generation, self.cache_uid = cache.metadata.generation, cache.metadata.uid
        self.observed = cache.metadata.annotations.get(ANNOTATION_OBSERVE) != ObservePolicy.OFF
        self.tuned = cache.metadata.annotations.get(ANNOTATION_TUNING) != ObservePolicy.OFF
        self.datasets = cache.spec.datasets
        self.shares = cache.spec.origins
        self.keep_unlisted, self.keep = cache.spec.keep_unlisted, frozenset(cache.spec.keep)
        self.report_seconds = cache.spec.report_seconds
        self.unobserved = frozenset(row.uid for row in self.datasets if row.observe is ObservePolicy.OFF)
        self._by_name = {(dataset.namespace, dataset.name): dataset for dataset in self.datasets}
        written = {row.uid: row for row in cache.status.datasets}
        if not self._from_fetcher:
            self.rows, self.on_disk = written, frozenset(written)
            status = cache.status
            self.disk = DiskFigures(status.capacity_bytes, status.used_bytes, status.available_bytes)
            self.folders = status.cache_folders
        elif not self.synced:  # the fetcher was there first, and was told of nothing yet
            self.rows = {uid: row for uid, row in written.items() if uid in self.on_disk} | self.rows
        self.conditions = self.conditions or cache.status.conditions
        self.credentials = {uid: one for uid, one in self.credentials.items() if uid in self.planned}
        self.changes.mark()

    def set_synced(self) -> None:
        """Note that the API server has said all that it knows of this node."""
        self.synced = True
        self.changes.mark()

    def lose_node_cache(self) -> None:
        """Note that the NodeCache was deleted.

        What is served goes on, and nothing is cleaned: only a plan can say that a dataset is unwanted.
        """
        self.generation = None
        self.changes.mark()

    def take_progress(self, progress: Progress) -> None:
        """Take the fetcher's figures. Raises ProtocolError when they cannot be read."""
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
        """Take a dataset's credentials that were read."""
        if self.credentials.get(uid) != credentials:
            self.credentials[uid] = credentials
            self.changes.mark()

    def take_kept(self, uid: str, digests: Iterable[str]) -> None:
        """Note which versions of a dataset the fetcher keeps for sure, now that it was told or is being told."""
        self._kept[uid] = frozenset(digests)

    def take_tuning(self, order: Tune) -> bool:
        """Take how the files of a version are to be treated from now on; return whether that is something new."""
        key = order.uid, order.digest
        if self.tunings.get(key, Tune(*key)) == order:
            return False
        self.tunings = {key: one for key, one in self.tunings.items() if key[0] in self.planned} | {key: order}
        self.changes.mark()
        return True

    def set_fetcher_connected(self, connected: bool) -> None:
        """Note that the fetcher came or went. What it keeps is known when it has been told on the new connection."""
        self._kept.clear()
        if connected != self.fetcher_connected:
            self.fetcher_connected, self._fetcher_since = connected, self._clock()
        self.changes.mark()

    # What others ask.

    def is_observed(self, uid: str) -> bool:
        """Return whether someone may look at what pods read of a dataset."""
        return self.observed and uid not in self.unobserved

    def fetcher_age(self) -> float:
        """Return the seconds since the fetcher came or went."""
        return self._clock() - self._fetcher_since

    @property
    def planned(self) -> Mapping[str, NodeDataset]:
        """The plan by uid."""
        return {dataset.uid: dataset for dataset in self.datasets}

    @property
    def inventory(self) -> bool:
        """Whether ``rows`` and ``on_disk`` are what the fetcher sees in the cache folders."""
        return self._from_fetcher

    @property
    def leftovers(self) -> frozenset[str]:
        """Uids on the disk and in no plan."""
        return self.on_disk - self.planned.keys()

    @property
    def kept(self) -> frozenset[str]:
        """Those of them that stay until the operator has decided about them."""
        return self.leftovers if self.keep_unlisted else self.leftovers & self.keep

    def in_service(self, root: Path) -> bool:
        """Return whether a cache folder is in service, as far as the fetcher has said."""
        return all(folder.healthy for folder in self.folders if folder.path == str(root))

    def find(self, namespace: str, name: str) -> NodeDataset | None:
        """Return the dataset's entry in the plan."""
        return self._by_name.get((namespace, name))

    def name_of(self, uid: str) -> str:
        """Return a dataset's NAMESPACE/NAME; empty when it is not planned."""
        return next((f"{one.namespace}/{one.name}" for one in self.datasets if one.uid == uid), "")

    def keeps(self, uid: str, digest: str) -> bool:
        """Return whether the fetcher has confirmed that it keeps this version, as it was asked to."""
        return digest in self._kept.get(uid, ())

    def status_of(self, uid: str) -> NodeDatasetStatus | None:
        """Return the last word on a dataset."""
        return self.rows.get(uid)

    async def wait_change(self, deadline: float) -> None:
        """Return at the next change, or at ``deadline`` of the clock."""
        await self.changes.wait(timeout=max(0.0, deadline - self._clock()))


def _folder(wire: Mapping[str, Any]) -> CacheFolder:
    try:
        return CacheFolder.model_validate(wire)
    except ValidationError as error:
        raise ProtocolError(f"the fetcher sent a cache folder that cannot be read: {error}") from error


def _memory(wire: Mapping[str, Any]) -> NodeMemory:
    try:
        return NodeMemory.model_validate(wire)
    except ValidationError as error:
        raise ProtocolError(f"the fetcher sent figures of memory that cannot be read: {error}") from error


def _origin(wire: Mapping[str, Any]) -> NodeOrigin:
    try:
        return NodeOrigin.model_validate(wire)
    except ValidationError as error:
        raise ProtocolError(f"the fetcher sent an origin that cannot be read: {error}") from error


def _row(wire: Mapping[str, Any]) -> NodeDatasetStatus:
    try:
        return NodeDatasetStatus.model_validate(wire)
    except ValidationError as error:
        raise ProtocolError(f"the fetcher sent a dataset that cannot be read: {error}") from error

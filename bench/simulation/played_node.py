"""A simulated sidecar: its status for its plan, at any moment.

Pure: the caller passes the time, in seconds of one clock. The sidecar's own code makes the status.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from bench.simulation.shape import Temper
from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import ListingResult, NodeDatasetStatus, NodePhase, OlderVersionStatus
from stoker_api.node_caches.nodecache import REPORT_SECONDS, NodeCache
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_sidecar.agent.core.disk_figures import DiskFigures
from stoker_sidecar.agent.core.status import Facts, node_status

FILES, BYTES = 100_000, 10**11
DISK = 4 * 10**13
_SLOWER = 5  # factor of a slow sidecar's durations


@dataclass(frozen=True)
class Pace:
    """Durations of the simulated work, in seconds."""

    listing: float = 0.5
    warming: float = 4.0


class PlayedNode:
    """The sidecar of one node, with its name and behavior."""

    def __init__(self, name: str, temper: Temper, pace: Pace) -> None:
        self.name = name
        self.temper = temper
        self._pace = pace
        self._plan: tuple[NodeDataset, ...] = ()
        self.generation = 0  # of the plan
        self.report_seconds = REPORT_SECONDS  # as in the plan
        self._asked: dict[str, tuple[str, float]] = {}  # by uid: the listing, and the time of its request
        self._began: dict[tuple[str, str], float] = {}  # by uid and version: the start of its warm-up
        self._spare = 0  # bytes of the disk that other data uses

    def take(self, cache: NodeCache, now: float) -> bool:
        """Take the plan of a NodeCache. Return True if it has changed."""
        changed = cache.spec.datasets != self._plan or cache.metadata.generation != self.generation
        self._plan, self.generation = cache.spec.datasets, cache.metadata.generation
        self.report_seconds = cache.spec.report_seconds
        planned = {(row.uid, row.version) for row in self._plan if row.version and row.eager and not row.paused}
        self._began = {key: self._began.get(key, now) for key in planned}
        asked = {row.uid: row.listing_id for row in self._plan if row.listing_id}
        self._asked = {
            uid: known if (known := self._asked.get(uid, ("", now)))[0] == listing else (listing, now)
            for uid, listing in asked.items()
        }
        return changed

    def shift(self, taken: int) -> None:
        """Let other data take this number of bytes of the disk, or free them if it already does."""
        self._spare = 0 if self._spare else taken

    def lose(self, now: float) -> bool:
        """Lose the last second of fetches of the first complete Dataset. Return True if there is one."""
        whole = next((key for key in self._began if self._share(key, now) == 1.0), None)
        if whole is None:
            return False
        self._began[whole] = now - self._warming() + min(1.0, self._warming())
        return True

    def is_busy(self, now: float) -> bool:
        """Return True if its figures change without new plans."""
        listing = any(now - since < self._pace.listing for _, since in self._asked.values())
        return listing or any(self._share(key, now) < 1.0 for key in self._began)

    def settles(self, now: float) -> float | None:
        """Return the seconds until a step ends that other parts wait for. None if no step runs."""
        ends = [since + self._pace.listing for _, since in self._asked.values()]
        ends += [began + self._warming() for began in self._began.values()]
        return min((end - now for end in ends if end > now), default=None)

    def status(self, now: float, written: NodeCacheStatus | None) -> NodeCacheStatus | None:
        """Return its current status, given its previous one. None for a silent sidecar."""
        if self.temper is Temper.SILENT or not self.generation:
            return None
        return node_status(self._facts(now), written.conditions if written else ())

    def _facts(self, now: float) -> Facts:
        used = sum(round(BYTES * self._share(key, now)) for key in self._began)
        return Facts(
            generation=self.generation,
            plan=self._plan,
            rows={entry.uid: self._row(entry, now) for entry in self._plan},
            leftovers=frozenset(),
            found={},
            inventory=True,
            mounts=(),
            profiles=(),
            figures=(),
            workloads=(),
            disk=DiskFigures(DISK, used, DISK - used - self._spare),
            folders=(),
            modes=(MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE),
            modes_message="",
            confinement="Landlock, ABI 7",
            observer="fanotify, 1 % of a CPU",
            refused={},
            address=f"{self.name}:8081",
            version="played",
            trouble="",
            now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )

    def _row(self, entry: NodeDataset, now: float) -> NodeDatasetStatus:
        share = self._share((entry.uid, entry.version), now)
        known = bool(entry.version)
        return NodeDatasetStatus(
            namespace=entry.namespace,
            name=entry.name,
            uid=entry.uid,
            observed_generation=entry.generation,
            phase=self._phase(entry, share),
            version=entry.version,
            files=FILES if known else 0,
            bytes=BYTES if known else 0,
            warm_files=round(FILES * share),
            warm_bytes=round(BYTES * share),
            fetched_files=round(FILES * share),
            bytes_per_second=round(BYTES / self._warming()) if 0.0 < share < 1.0 else 0,
            listing=self._listing(entry, now),
            retained=entry.retain,
            older=tuple(
                OlderVersionStatus(version=one.version, phase=NodePhase.WARM, bytes=BYTES, warm_bytes=BYTES)
                for one in entry.older
            ),
        )

    def _phase(self, entry: NodeDataset, share: float) -> NodePhase:
        if not entry.version:
            return NodePhase.LISTING if entry.listing_id else NodePhase.PENDING
        if not entry.eager or entry.paused:
            return NodePhase.IDLE
        return NodePhase.WARM if share == 1.0 else NodePhase.WARMING

    def _listing(self, entry: NodeDataset, now: float) -> ListingResult | None:
        listing, since = self._asked.get(entry.uid, ("", now))
        if not listing or now - since < self._pace.listing:
            return None
        return ListingResult(id=listing, version=version_of(entry.uid), files=FILES, bytes=BYTES)

    def _share(self, key: tuple[str, str], now: float) -> float:
        began = self._began.get(key)
        return 0.0 if began is None else max(0.0, min(1.0, (now - began) / self._warming()))

    def _warming(self) -> float:
        return self._pace.warming * (_SLOWER if self.temper is Temper.SLOW else 1)


def version_of(uid: str) -> str:
    """Return the version from a listing of this Dataset: always the same one."""
    return hashlib.sha256(uid.encode()).hexdigest()


def nonsense(number: int, name: str) -> Mapping[str, object]:
    """Return the next of several invalid statuses. The CRD refuses one half, the operator gets the other half.

    The API server's schema checks types and enumerations, but not the meaning of figures.
    """
    row: dict[str, object] = {"namespace": "nowhere", "name": "nothing", "uid": f"{name}-{number}"}
    refused: list[dict[str, object]] = [
        {"datasets": "all of them"},
        {"capacityBytes": "a lot"},
        {"datasets": [{"namespace": "nowhere"}]},
        {"datasets": [row | {"phase": "Lukewarm"}]},
    ]
    taken: list[dict[str, object]] = [
        {"datasets": [row | {"phase": "Warm", "bytes": 1, "warmBytes": 10**15, "version": "not a digest"}]},
        {"availableBytes": -1, "capacityBytes": -1, "usedBytes": 10**18},
        {"datasets": [row | {"uid": f"stranger-{index}"} for index in range(200)]},
        {"datasets": [row | {"listing": {"id": "nobody asked", "version": "f" * 64}}], "address": "no address"},
    ]
    every = refused + taken
    return every[number % len(every)]

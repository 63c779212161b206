"""Selects the readers to follow in detail: ten pods, shared fairly between namespaces. Others are only counted."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_workload import MOST_WORKLOADS, EvidenceSource
from stoker_sidecar.agent.core.workload_rows import chosen_fairly
from stoker_sidecar.agent.observation.training.dataset_layouts import DatasetLayouts
from stoker_sidecar.agent.observation.training.model_heads import ModelHeads
from stoker_sidecar.agent.observation.training.pod_training import PodTraining
from stoker_sidecar.agent.questions.reading.reading import ObservedTree, ReaderKey
from stoker_sidecar.volumes.core.publish import Published, VersionKey
from stoker_tuning.training.sweeps import SweepWatch


class TrainingWatch:
    """Follows the activity of the first ten pods on their mounted versions. Not thread-safe.

    ``clock`` is monotonic, in seconds.
    """

    def __init__(self, layouts: DatasetLayouts, heads: ModelHeads, clock: Callable[[], float] = time.monotonic) -> None:
        self._layouts = layouts
        self._heads = heads
        self._clock = clock
        self._followed: dict[ReaderKey, PodTraining] = {}
        self._sweeps: dict[VersionKey, SweepWatch[ReaderKey]] = {}

    def choose(self, mounted: Sequence[Published]) -> None:
        """Follow pods with mounts, ten at most, and no other pods."""
        pods = {row.request.pod_uid: row for row in mounted if row.request.pod_uid}
        chosen = chosen_fairly(pods.values(), lambda row: row.request.pod_namespace, MOST_WORKLOADS)
        uids = {row.request.pod_uid for row in chosen}
        records = [row for row in mounted if row.request.pod_uid in uids]
        users: dict[VersionKey, set[str]] = defaultdict(set)
        for row in mounted:
            users[row.uid, row.version].add(row.request.pod_uid)
        shared = dict.fromkeys((row.uid, row.version) for row in records if len(users[row.uid, row.version]) > 1)
        wanted = [*map(ReaderKey, sorted(uids)), *(ReaderKey("", version) for version in list(shared)[:MOST_WORKLOADS])]
        self._follow(wanted, records)

    def _follow(self, wanted: Sequence[ReaderKey], records: Sequence[Published]) -> None:
        now = self._clock()
        before = self._followed
        self._followed = {key: before.get(key) or PodTraining(self._layouts, self._heads, now) for key in wanted}
        versions = {(row.uid, row.version) for row in records}
        for key, training in self._followed.items():
            training.budget.share = 1.0 / len(wanted)
            own = [row for row in records if _has(row, key)]
            training.retain({(row.uid, row.version) for row in own})
            for row in own:
                training.mounted(ObservedTree(row.uid, row.version, seen_by(row)), now)
        self._sweeps = {version: self._sweeps.get(version, SweepWatch()) for version in versions}
        self._layouts.retain(versions)
        self._heads.retain(versions)

    def of(self, key: ReaderKey) -> PodTraining | None:
        """Return the activity of a reader, or None if it is not followed."""
        return self._followed.get(key)

    def pods(self) -> tuple[str, ...]:
        """Return the UIDs of the followed pods."""
        return tuple(key.pod_uid for key in self._followed if key.pod_uid)

    def look_for_sweeps(self, version: VersionKey) -> None:
        """Notify readers that process the same data separately about each other's sweeps."""
        sweep = self._sweeps.get(version)
        pods = {key: training.tracker(version) for key, training in self._followed.items() if key.pod_uid}
        if sweep is not None:
            sweep.look({key: one for key, one in pods.items() if one is not None})


def seen_by(row: Published) -> EvidenceSource:
    """Return the source that observes reads of a volume."""
    return EvidenceSource.FUSE if row.mode is MountMode.FUSE else EvidenceSource.FANOTIFY


def _has(row: Published, key: ReaderKey) -> bool:
    return row.request.pod_uid == key.pod_uid if key.pod_uid else (row.uid, row.version) == key.version

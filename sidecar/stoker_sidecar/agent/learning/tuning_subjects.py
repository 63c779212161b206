"""Subjects of tuning on a node: its versions, with the activity of their pods and the rates of their stores."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.tuning.source import TuningSource
from stoker_sidecar.tuning.tuner import Tuner, TuningSubject
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.reports.figures import round_to
from stoker_tuning.rules.facts import AccessFacts, Surroundings, SystemFacts, WorkloadFacts
from stoker_tuning.vocabulary import AccessPattern, ModelFileKind, TrainingPhase

# Most workloads of a node to consider, as many as the node's status has rows.
_MOST_WORKLOADS = 10


class TuningSubjects:
    """Sends a node's fetcher the tuning that follows from rules and pods' activity. Call ``run``. Not thread-safe.

    ``workloads``: the rows of the node's pods. ``system``: facts of the node. ``clock``: monotonic seconds.
    """

    def __init__(
        self,
        plan: NodePlan,
        folders: CacheFolders,
        source: TuningSource,
        workloads: Callable[[], Iterable[NodeWorkload]],
        system: Callable[[], SystemFacts] = SystemFacts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._workloads = workloads
        self._system = system
        self._clock = clock
        self._seen: dict[str, Surroundings] = {}
        self.rates = StoreRates()
        self.tuner = Tuner(source, folders, self.subjects, plan.take_tuning, plan.changes)

    async def run(self) -> None:
        """Update the tuning at every change, until cancelled."""
        await self.tuner.run()

    def subjects(self) -> Iterator[TuningSubject]:
        """Yield the versions of this node, each with its readers' activity."""
        system = self._system()
        readers = self._readers(system)
        self.rates.retain({dataset.uid for dataset in self._plan.datasets})
        for dataset in self._plan.datasets:
            row = self._plan.status_of(dataset.uid)
            if row is None:
                continue
            self._measure(dataset, row)
            if dataset.version:
                bandwidth = self.rates.best(dataset.uid) or system.bandwidth
                around = readers.get(f"{dataset.namespace}/{dataset.name}", ())
                yield TuningSubject(
                    (dataset.uid, dataset.version),
                    tuple(replace(each, system=replace(each.system, bandwidth=bandwidth)) for each in around),
                    system=replace(system, bandwidth=bandwidth),
                    whole=row.phase is NodePhase.WARM,
                )

    def _measure(self, dataset: NodeDataset, row: NodeDatasetStatus) -> None:
        """Record the download rate of a Dataset's source.

        Until the fetcher reports, the row is the one that the previous agent wrote.
        """
        if row.best_source_bytes_per_second:
            self.rates.knew(dataset.uid, row.best_source_bytes_per_second)
        self.rates.saw(dataset.uid, self._plan.source_rates.get(dataset.uid), self._clock())

    def _readers(self, system: SystemFacts) -> dict[str, list[Surroundings]]:
        """Return the distinct activities of each Dataset's workloads, in a stable order, by NAMESPACE/NAME."""
        found = defaultdict[str, dict[Surroundings, None]](dict)
        seen = self._seen
        self._seen = {}
        for row in sorted(self._workloads(), key=lambda row: row.pod)[:_MOST_WORKLOADS]:
            around = self._seen[row.pod] = _steady(surroundings(row, system), seen.get(row.pod))
            for name in row.datasets:
                found[name][around] = None
        return {name: list(each) for name, each in found.items()}


def surroundings(row: NodeWorkload, system: SystemFacts) -> Surroundings:
    """Return the facts of a pod that rules use, from its workload row. Pure.

    The GPU count includes the pod's allocated GPUs, which the node's agent may not see as devices.
    """
    namespace, _, pod = row.pod.partition("/")
    phase = TrainingPhase(row.phase) if row.phase in set(TrainingPhase) else None
    pattern = AccessPattern(row.pattern) if row.pattern in set(AccessPattern) else None
    kind = ModelFileKind(row.model_kind) if row.model_kind in set(ModelFileKind) else None
    gpus = max((count for count in (system.gpu_count, row.gpus) if count is not None), default=None)
    return Surroundings(
        AccessFacts(pattern, row.items_per_second),
        WorkloadFacts(row.framework or None, phase, row.batch_size, row.job or pod, namespace, kind),
        replace(system, gpu_count=gpus),
    )


def _steady(now: Surroundings, before: Surroundings | None) -> Surroundings:
    """Return ``before`` while the workload does the same: a change of speed alone must not turn a knob."""
    if before is None:
        return now
    now = _of_whole_batches(now, before)
    known = now.access.items_per_second is None, before.access.items_per_second is None
    same = (now.workload, now.access.pattern, now.system) == (before.workload, before.access.pattern, before.system)
    return before if same and known[0] == known[1] else now


def _of_whole_batches(now: Surroundings, before: Surroundings) -> Surroundings:
    """Return ``now``, but keep the batch size if only an epoch's smaller last batch reduced it."""
    size, last = now.workload.batch_size, before.workload.batch_size
    if size is None or last is None or size >= last or now.workload.phase is not before.workload.phase:
        return now
    return replace(now, workload=replace(now.workload, batch_size=last))


# Seconds of warm-up after which the best rate shows roughly the capacity of the store and the network; a warm-up begins
# slowly. Small Datasets are warm after some seconds, and a rough figure is better than none.
# The second number limits the seconds that count between two calls.
_SEEN_SECONDS, _MOST_BETWEEN = 5.0, 2.0


@dataclass
class _Seen:
    best: float = 0.0
    seconds: float = 0.0
    last: float | None = None


class StoreRates:
    """The best rate of each Dataset's warm-up, by its UID, in bytes per second.

    Only an unlimited warm-up uses the full capacity of the store. Reads, capped warm-ups and warm-ups with peers do not
    show it.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def saw(self, uid: str, rate: float | None, now: float) -> None:
        """Take a Dataset's rate at ``now``, in seconds. None: no unlimited warm-up is running."""
        seen = self._seen.setdefault(uid, _Seen())
        if rate:
            since = 0.0 if seen.last is None else now - seen.last
            seen.seconds += min(max(since, 0.0), _MOST_BETWEEN)
            seen.best = max(seen.best, rate)
        seen.last = now

    def knew(self, uid: str, best: float) -> None:
        """Take a Dataset's best rate from before a restart."""
        seen = self._seen.setdefault(uid, _Seen())
        seen.best, seen.seconds = max(seen.best, best), _SEEN_SECONDS

    def best(self, uid: str) -> float | None:
        """Return the best rate, rounded to one digit because of its uncertainty; None if the warm-up was too short."""
        seen = self._seen.get(uid)
        return round_to(seen.best, 1) if seen is not None and seen.seconds >= _SEEN_SECONDS else None

    def known(self) -> dict[str, float]:
        """Return the known best rates."""
        return {uid: best for uid in self._seen if (best := self.best(uid)) is not None}

    def retain(self, uids: Collection[str]) -> None:
        """Forget all other Datasets."""
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in uids}

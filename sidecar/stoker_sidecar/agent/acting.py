"""What a node acts on: the versions that it fetches, and what the pods that have them mounted do."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from stoker_api.node_dataset import NodeDataset
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.tuning.core.pace import MOST_TURNS
from stoker_sidecar.tuning.core.store_rates import StoreRates
from stoker_sidecar.tuning.source import TuningSource
from stoker_sidecar.tuning.tuner import Tuner, TuningSubject
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.rules.facts import AccessFacts, Surroundings, SystemFacts, WorkloadFacts
from stoker_tuning.vocabulary import AccessPattern, ModelFileKind, TrainingPhase

# Of a Dataset's workloads on one node; the node says no more of them either.
_MOST_WORKLOADS = 10


class NodeActing:
    """Keeps a node's fetcher told what follows from rules and from what pods do. ``run`` it; not for threads.

    ``workloads``: the rows of the node's pods. ``system``: what is known of the node. ``clock``: seconds, monotonic.
    ``most_turns``: of what is under trial, a minute and Dataset.
    """

    def __init__(
        self,
        plan: NodePlan,
        folders: CacheFolders,
        source: TuningSource,
        workloads: Callable[[], Iterable[NodeWorkload]],
        system: Callable[[], SystemFacts] = SystemFacts,
        clock: Callable[[], float] = time.monotonic,
        most_turns: int = MOST_TURNS,
    ) -> None:
        self._plan = plan
        self._workloads = workloads
        self._system = system
        self._clock = clock
        self._seen: dict[str, Surroundings] = {}
        self.rates = StoreRates()
        self.tuner = Tuner(source, folders, self.subjects, plan.take_tuning, plan.changes, most_turns=most_turns)

    async def run(self) -> None:
        """Act at every change, until cancelled."""
        await self.tuner.run()

    def subjects(self) -> Iterator[TuningSubject]:
        """List the versions of this node, each with what its readers do."""
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
        """Note how fast a Dataset's source gives it.

        Before the fetcher's first word the row is what the last agent wrote.
        """
        if row.best_source_bytes_per_second:
            self.rates.knew(dataset.uid, row.best_source_bytes_per_second)
        self.rates.saw(dataset.uid, self._plan.source_rates.get(dataset.uid), self._clock())

    def _readers(self, system: SystemFacts) -> dict[str, list[Surroundings]]:
        """Return by Dataset, named NAMESPACE/NAME, what its workloads do: each thing once, in a steady order."""
        found = defaultdict[str, dict[Surroundings, None]](dict)
        seen = self._seen
        self._seen = {}
        for row in sorted(self._workloads(), key=lambda row: row.pod)[:_MOST_WORKLOADS]:
            around = self._seen[row.pod] = _steady(surroundings(row, system), seen.get(row.pod))
            for name in row.datasets:
                found[name][around] = None
        return {name: list(each) for name, each in found.items()}


def surroundings(row: NodeWorkload, system: SystemFacts) -> Surroundings:
    """Return what rules look at of a pod, from what the node says of it. Pure.

    A node has the GPUs that a pod of it has got, also where they are no devices that the node's agent knows.
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
    """Return what was seen before while the workload does the same: its speed alone is no reason to turn a knob."""
    if before is None:
        return now
    now = _of_whole_batches(now, before)
    known = now.access.items_per_second is None, before.access.items_per_second is None
    same = (now.workload, now.access.pattern, now.system) == (before.workload, before.access.pattern, before.system)
    return before if same and known[0] == known[1] else now


def _of_whole_batches(now: Surroundings, before: Surroundings) -> Surroundings:
    """Return what is seen now; an epoch's last batch, which is smaller, is taken for one of those before it."""
    size, last = now.workload.batch_size, before.workload.batch_size
    if size is None or last is None or size >= last or now.workload.phase is not before.workload.phase:
        return now
    return replace(now, workload=replace(now.workload, batch_size=last))

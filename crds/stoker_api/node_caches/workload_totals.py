"""Totals of pods' activity, for one node or all. They contain no names."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from stoker_api.node_caches.node_workload import NodeWorkload

# Phases that a row may report, to bound the values of a label. The node checks the phase that a pod reports.
PHASES = (
    "Unknown",
    "Initialization",
    "Training",
    "Validation",
    "SaveCheckpoint",
    "Evaluation",
    "Inference",
    "HyperparamTuning",
)


class WorkloadTotals(NamedTuple):
    """Sums over workloads.

    ``active`` counts those with recent reads. ``epochs`` and ``batches`` count finished ones. ``tuned`` counts those
    with an effective change. ``by_phase`` counts each phase.
    """

    workloads: int
    active: int
    epochs: int
    batches: int
    tuned: int
    by_phase: dict[str, int]

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "totalWorkloads": self.workloads,
            "activeWorkloads": self.active,
            "totalEpochs": self.epochs,
            "totalBatches": self.batches,
            "tunedWorkloads": self.tuned,
            "workloadsByPhase": self.by_phase,
        }


def workload_totals(rows: Iterable[NodeWorkload]) -> WorkloadTotals:
    """Sum up rows."""
    known = tuple(rows)
    phases = Counter(row.phase if row.phase in PHASES else PHASES[0] for row in known)
    return WorkloadTotals(
        workloads=len(known),
        active=sum(bool(row.items_per_second) for row in known),
        epochs=sum(row.epoch or 0 for row in known),
        batches=sum(row.step or 0 for row in known),
        tuned=sum(bool(row.tuned) for row in known),
        by_phase={phase: phases[phase] for phase in PHASES},
    )

"""Totals of what pods do: of one node, or of all. No name of anyone is in them."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from stoker_api.node_workload import NodeWorkload

# What a row may say of its phase, so that a label made of it is one of few; a pod's own word is checked by its node.
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

    ``active``: those that read data lately. ``epochs``, ``batches``: that are behind them. ``tuned``: those for which
    a change came to something. ``by_phase``: how many are in each.
    """

    workloads: int
    active: int
    epochs: int
    batches: int
    tuned: int
    by_phase: dict[str, int]

    def wire(self) -> dict[str, Any]:
        """Return them as they are shown."""
        return {
            "totalWorkloads": self.workloads,
            "activeWorkloads": self.active,
            "totalEpochs": self.epochs,
            "totalBatches": self.batches,
            "tunedWorkloads": self.tuned,
            "workloadsByPhase": self.by_phase,
        }


def workload_totals(rows: Iterable[NodeWorkload]) -> WorkloadTotals:
    """Sum up what rows say."""
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

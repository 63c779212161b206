"""One pass over a snapshot: everything that is decided about all Datasets, in one value."""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker_api.dataset import DatasetStatus
from stoker_operator.core.dataset_status import roll_up_dataset
from stoker_operator.core.deletion import Deletion, decide_deletion
from stoker_operator.core.listing import decide_listing
from stoker_operator.core.node_states import NodeStates
from stoker_operator.core.placement import Placement, place
from stoker_operator.core.plan import DatasetPlan, NodeCacheWrite, plan_nodes
from stoker_operator.core.usage import Use, find_uses
from stoker_operator.core.views import ClusterView


@dataclass(frozen=True, slots=True)
class Decision:
    """What should be: plans by dataset key, the NodeCaches to write, and when time alone may change the answer."""

    view: ClusterView
    states: NodeStates
    plans: Mapping[str, DatasetPlan]
    deletions: Mapping[str, Deletion]
    node_caches: tuple[NodeCacheWrite, ...]
    look_again: float | None  # seconds since the epoch

    def status(self, key: str, note: str, now: float) -> DatasetStatus:
        """Return the status that a Dataset should have."""
        return roll_up_dataset(self.view, self.plans[key], self.states, self.deletions.get(key), note, now)


def decide_datasets(view: ClusterView, wanted: Mapping[str, frozenset[str]], now: float) -> Decision:
    """Decide everything about Datasets. Pure."""
    states = NodeStates.of(view.node_caches)
    uses = find_uses(view)
    placements = place(view, states, uses, wanted, now)
    plans = {key: _plan(view, key, placements[key], uses.get(key, ()), states, now) for key in sorted(view.datasets)}
    metas = {key: one.metadata for key, one in view.datasets.items()}
    metas |= {key: one.metadata for key, one in view.invalid_datasets.items()}
    deletions = {
        key: decide_deletion(view, states, meta.uid, uses.get(key, ()))
        for key, meta in metas.items()
        if meta.deletion_timestamp
    }
    times = [plan.listing.look_again for plan in plans.values() if plan.listing.look_again is not None]
    writes = plan_nodes(view, plans, states)
    return Decision(view, states, plans, deletions, writes, min(times, default=None))


def _plan(
    view: ClusterView, key: str, placement: Placement, uses: tuple[Use, ...], states: NodeStates, now: float
) -> DatasetPlan:
    dataset = view.datasets[key]
    listing = decide_listing(view, dataset, placement, states, now)
    cleaning = bool(dataset.metadata.deletion_timestamp) and not uses
    return DatasetPlan(dataset, placement, listing, uses, cleaning)

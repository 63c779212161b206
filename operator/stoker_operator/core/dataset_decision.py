"""One pass over a snapshot: everything that is decided about all Datasets, in one value."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from stoker_api.dataset import Dataset
from stoker_api.dataset_status import DatasetStatus
from stoker_operator.core.class_limits import NO_TERMS
from stoker_operator.core.dataset_status import StatusNotes, roll_up_dataset
from stoker_operator.core.deletion import Deletion, decide_deletion
from stoker_operator.core.giving_nodes import find_giving_nodes
from stoker_operator.core.listing import NOT_ASKED, AskedListing, decide_listing
from stoker_operator.core.live_versions import (
    live_versions,
    pinned_by_jobs,
    queued_datasets,
    uses_by_node,
)
from stoker_operator.core.node_roles import Placement
from stoker_operator.core.node_states import NodeStates
from stoker_operator.core.on_time import due_time
from stoker_operator.core.placement import Chosen, place
from stoker_operator.core.plan import DatasetPlan, NodePlans, plan_nodes
from stoker_operator.core.spoiled import Spoiled
from stoker_operator.core.tuning import TuningDecision, decide_tuning
from stoker_operator.core.usage import Use, find_uses
from stoker_operator.core.views import ClusterView


@dataclass(frozen=True, slots=True)
class Decision:
    """What should be: plans by dataset key, the NodeCaches to write, and when time alone may change the answer."""

    view: ClusterView
    states: NodeStates
    plans: Mapping[str, DatasetPlan]
    deletions: Mapping[str, Deletion]
    nodes: NodePlans
    look_again: float | None  # seconds since the epoch
    spoiled: Spoiled  # Datasets for which something could not be worked out, with the sentence
    changed: Collection[str]  # keys of Datasets of which anything may be another than in the decision before this one

    def status(self, key: str, note: str, troubles: Sequence[str], now: float) -> DatasetStatus:
        """Return the status that a Dataset should have; ``troubles`` is what could not be written for it."""
        plan, deletion = self.plans[key], self.deletions.get(key)
        return roll_up_dataset(self.view, plan, self.states, deletion, StatusNotes(note, tuple(troubles)), now)


def decide_datasets(
    view: ClusterView,
    wanted: Mapping[str, frozenset[str]],
    now: float,
    may_be_given: Callable[[DatasetPlan], bool] = lambda _: True,
    versions: Mapping[str, Mapping[str, frozenset[str]]] = MappingProxyType({}),
    asked: Mapping[str, AskedListing] = MappingProxyType({}),
    chosen: Chosen = MappingProxyType({}),
) -> Decision:
    """Decide everything about Datasets. Pure, and what fails for one Dataset is left out for it alone.

    ``may_be_given(plan)``: False while nodes must not be told anything new of the Dataset. ``versions``: those that
    held pods want beside the current one, by key and node. ``asked``: the listings of earlier decisions, by UID;
    ``chosen``: their replicas.
    """
    states = NodeStates.of(view.node_caches)
    uses, pinned, queued = find_uses(view), pinned_by_jobs(view), queued_datasets(view)
    spoiled = Spoiled()
    placements = place(view, states, uses, wanted, now, spoiled, chosen)

    def plan_of(key: str, placement: Placement) -> DatasetPlan:
        facts = PlanFacts(key in queued, pinned.get(key, frozenset()), versions.get(key, {}))
        before = asked.get(view.datasets[key].metadata.uid, NOT_ASKED)
        return make_plan(view, key, placement, uses.get(key, ()), states, facts, now, before)

    plans = {
        key: plan
        for key in sorted(placements)
        if (plan := spoiled.attempt(key, partial(plan_of, key, placements[key])))
    }
    everything = {*view.datasets, *view.invalid_datasets}
    deletions = decide_deletions(view, states, uses, spoiled, everything)
    times = [time for plan in plans.values() for time in plan.times(now)]
    held_back = {key for key, plan in plans.items() if not may_be_given(plan)}
    nodes = plan_nodes(view, plans, states, spoiled, held_back)
    return Decision(view, states, plans, deletions, nodes, min(times, default=None), spoiled, everything)


def decide_deletions(
    view: ClusterView,
    states: NodeStates,
    uses: Mapping[str, tuple[Use, ...]],
    spoiled: Spoiled,
    keys: Iterable[str],
) -> Mapping[str, Deletion]:
    """Tell of every Dataset among the keys that is being deleted how far that is."""
    return {
        key: deletion
        for key in keys
        if (meta := view.meta(key)) is not None
        and meta.deletion_timestamp
        and (deletion := spoiled.attempt(key, partial(decide_deletion, view, states, meta.uid, uses.get(key, ()))))
    }


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What jobs and held pods say of one Dataset."""

    queued: bool = False  # a TrainingJob that a queue holds names it
    pinned: frozenset[str] = frozenset()  # versions that jobs gave their workers
    wanted: Mapping[str, frozenset[str]] = field(default_factory=dict)  # versions that held pods want, by node


def make_plan(
    view: ClusterView,
    key: str,
    placement: Placement,
    uses: tuple[Use, ...],
    states: NodeStates,
    facts: PlanFacts,
    now: float,
    asked: AskedListing = NOT_ASKED,
) -> DatasetPlan:
    """Decide all about one Dataset that was placed, but for what its nodes are told."""
    dataset = view.datasets[key]
    listing = decide_listing(view, dataset, placement, states, now, asked)
    held = states.of_dataset(dataset.metadata.uid)
    return DatasetPlan(
        dataset,
        placement,
        listing,
        uses,
        cleaning=bool(dataset.metadata.deletion_timestamp) and not uses,
        live=live_versions(held, uses, facts.pinned, listing.version),
        wanted=facts.wanted,
        uses_at=uses_by_node(uses),
        tuning=tuning_of(view, dataset),
        queued=facts.queued,
        due=due_time(dataset, now),
        givers=find_giving_nodes(view, placement, held, listing.version),
    )


def tuning_of(view: ClusterView, dataset: Dataset) -> TuningDecision:
    """Return what applies of tuning to a Dataset, where no TrainingJob says otherwise."""
    return decide_tuning(dataset.spec.tuning, view.terms.get(dataset.key, NO_TERMS).tuning, view.tuning)

"""All decisions about Datasets from one snapshot, in one value."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_operator.core.classes.class_limits import NO_TERMS
from stoker_operator.core.classes.tuning import TuningDecision, decide_tuning
from stoker_operator.core.placement.node_roles import Placement
from stoker_operator.core.plans.deletion import Deletion, decide_deletion
from stoker_operator.core.plans.giving_nodes import find_giving_nodes
from stoker_operator.core.plans.listing import NOT_ASKED, AskedListing, decide_listing
from stoker_operator.core.plans.live_versions import live_versions, uses_by_node
from stoker_operator.core.plans.on_time import due_time
from stoker_operator.core.plans.plan import DatasetPlan, NodePlans
from stoker_operator.core.status.dataset_status import StatusNotes, roll_up_dataset
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.failed_objects import FailedObjects
from stoker_operator.core.views.node_states import NodeStates
from stoker_operator.core.views.usage import Use


@dataclass(frozen=True, slots=True)
class Decision:
    """The wanted state: plans by Dataset key, NodeCaches to write, and when time alone may change the result."""

    view: ClusterView
    states: NodeStates
    plans: Mapping[str, DatasetPlan]
    deletions: Mapping[str, Deletion]
    nodes: NodePlans
    look_again: float | None  # seconds since the epoch
    spoiled: FailedObjects  # Datasets whose decision failed, with the message
    changed: Collection[str]  # keys of Datasets that may differ from the previous decision

    def status(self, key: str, note: str, troubles: Sequence[str], now: float) -> DatasetStatus:
        """Return the new status of a Dataset. ``troubles``: failed writes for it."""
        plan, deletion = self.plans[key], self.deletions.get(key)
        return roll_up_dataset(self.view, plan, self.states, deletion, StatusNotes(note, tuple(troubles)), now)


def decide_deletions(
    view: ClusterView,
    states: NodeStates,
    uses: Mapping[str, tuple[Use, ...]],
    spoiled: FailedObjects,
    keys: Iterable[str],
) -> Mapping[str, Deletion]:
    """Return the progress of each deletion among the keys."""
    return {
        key: deletion
        for key in keys
        if (meta := view.meta(key)) is not None
        and meta.deletion_timestamp
        and (deletion := spoiled.attempt(key, partial(decide_deletion, view, states, key, uses.get(key, ()))))
    }


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """Inputs from jobs and held pods for one Dataset."""

    queued: bool = False  # a queued TrainingJob names it
    pinned: frozenset[str] = frozenset()  # versions that jobs fixed for their workers
    wanted: Mapping[str, frozenset[str]] = field(default_factory=dict)  # versions of held pods, by node


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
    """Decide everything about a placed Dataset, except the entries of its nodes."""
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
    """Return the tuning of a Dataset without a TrainingJob's override."""
    return decide_tuning(dataset.spec.tuning, view.terms.get(dataset.key, NO_TERMS).tuning, view.tuning)

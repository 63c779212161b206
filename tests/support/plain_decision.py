"""The decision about all Datasets as one pass over a snapshot: the model of ``IncrementalDecision``."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_operator.core.incremental.dataset_decision import Decision, PlanFacts, decide_deletions, make_plan
from stoker_operator.core.peers.peer_groups import PeerGroup
from stoker_operator.core.placement.node_roles import Placement
from stoker_operator.core.plans.giving_nodes import keeps_manifest_hosts, manifest_hosts
from stoker_operator.core.plans.listing import NOT_ASKED, AskedListing
from stoker_operator.core.plans.live_versions import pinned_by_jobs, queued_datasets
from stoker_operator.core.plans.plan import (
    DatasetPlan,
    NodePlans,
    dividing,
    frozen_uids,
    is_told,
    node_dataset,
    settle_node,
    with_peers,
)
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.failed_objects import FailedObjects
from stoker_operator.core.views.node_states import NodeStates
from stoker_operator.core.views.usage import GrantLookup, Use, mounted_on, named_by_pod, settle_uses
from tests.support.plain_node_states import PlainNodeStates
from tests.support.plain_placement import Chosen, place_plainly


def decide_plainly(
    view: ClusterView,
    wanted: Mapping[str, frozenset[str]],
    now: float,
    may_be_given: Callable[[DatasetPlan], bool] = lambda _: True,
    versions: Mapping[str, Mapping[str, frozenset[str]]] = MappingProxyType({}),
    asked: Mapping[str, AskedListing] = MappingProxyType({}),
    chosen: Chosen = MappingProxyType({}),
) -> Decision:
    """Decide everything about Datasets. The arguments are those of ``IncrementalDecision.decide``.

    ``asked`` and ``chosen`` are the listings and the replicas of earlier decisions, by UID.
    """
    states = PlainNodeStates(view.node_caches)
    uses, pinned, queued = _find_uses(view), pinned_by_jobs(view), queued_datasets(view)
    spoiled = FailedObjects()
    placements = place_plainly(view, states, uses, wanted, now, spoiled, chosen)

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
    nodes = _plan_nodes(view, plans, states, spoiled, held_back)
    return Decision(view, states, plans, deletions, nodes, min(times, default=None), spoiled, everything)


def _find_uses(view: ClusterView) -> Mapping[str, tuple[Use, ...]]:
    """Find the uses of each Dataset, by key."""
    access = GrantLookup(view)
    found: dict[str, list[Use]] = {}
    rows = [row for pod in view.pods.values() for row in named_by_pod(view, pod, access)]
    rows += [row for node in sorted(view.node_caches) for row in mounted_on(view, node, access)]
    for key, use in rows:
        found.setdefault(key, []).append(use)
    return {key: settle_uses(uses) for key, uses in found.items()}


def _plan_nodes(
    view: ClusterView,
    plans: Mapping[str, DatasetPlan],
    states: NodeStates,
    spoiled: FailedObjects,
    held_back: Collection[str],
) -> NodePlans:
    desired: dict[str, list[NodeDataset]] = {}
    for key, plan in plans.items():
        entries = None if key in held_back else spoiled.attempt(key, partial(_entries, view, plan, states))
        for node, entry in entries or ():
            desired.setdefault(node, []).append(entry)
    frozen = frozen_uids(view, {*spoiled, *held_back})
    found = {name: settle_node(view, name, desired.get(name, ()), frozen) for name in sorted(view.nodes)}
    left_out: dict[str, list[str]] = {}
    for name, one in found.items():
        for uid in one.left_out:
            left_out.setdefault(uid, []).append(name)
    return NodePlans(tuple(one.write for one in found.values() if one.write is not None), left_out)


def _entries(view: ClusterView, plan: DatasetPlan, states: NodeStates) -> list[tuple[str, NodeDataset]]:
    together = dividing(view, plan)
    told = (node for node in plan.nodes() if is_told(plan, node, states))
    return [(node, _entry(view, plan, node, states, together)) for node in told]


def _entry(
    view: ClusterView, plan: DatasetPlan, node: str, states: NodeStates, together: Mapping[str, PeerGroup]
) -> NodeDataset:
    """Make the entry of one Dataset on one node, without shared state among nodes."""
    entry = with_peers(node_dataset(view, plan, node, states), together.get(node))
    state = states.get(plan.dataset.metadata.uid, node)
    there = state.desired
    hosts = frozenset(manifest_hosts(view, plan.listing))
    if there is None or not keeps_manifest_hosts(state, plan.listing.version, hosts):
        return entry
    return there if there == entry.model_copy(update={"manifest_hosts": there.manifest_hosts}) else entry

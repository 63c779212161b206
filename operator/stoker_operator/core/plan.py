"""What every NodeCache should say, and which of them differ from that."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice

from stoker_api import names
from stoker_api.dataset import Cache, Dataset, NeighbourPolicy, WarmPolicy
from stoker_api.dataset_source import Source
from stoker_api.meta import parse_quantity, shortened
from stoker_api.names import Reason
from stoker_api.node_dataset import NeighbourGroups, NodeDataset, OlderVersion
from stoker_api.nodecache import NodeCacheSpec
from stoker_api.origin import MOST_ORIGINS, origin_names
from stoker_api.times import format_time
from stoker_api.trainingjob import TrainingJob
from stoker_api.tuning import NodeTuning
from stoker_operator.core.class_limits import NO_TERMS
from stoker_operator.core.compact_rows import compacted
from stoker_operator.core.districts import HolderNode
from stoker_operator.core.entry_room import fitting
from stoker_operator.core.giving_nodes import NO_GIVERS, GivingNodes
from stoker_operator.core.int64 import clamp
from stoker_operator.core.listing import ListingState
from stoker_operator.core.live_versions import older_versions, versions_of
from stoker_operator.core.manifest_hosts import (
    MANIFEST_SOURCES,
    addresses,
    hosts_told,
    keeps_manifest_hosts,
    known_address,
    manifest_hosts,
)
from stoker_operator.core.nearness import NodeSite, near_neighbourhoods, site_by
from stoker_operator.core.neighbourhoods import Neighbourhood
from stoker_operator.core.node_roles import Placement, Role
from stoker_operator.core.node_states import NOWHERE, NodeStates, found_on_disk
from stoker_operator.core.report_pace import report_seconds
from stoker_operator.core.spoiled import Spoiled
from stoker_operator.core.steps import Steps, finished
from stoker_operator.core.tuning import UNTUNED, TuningDecision, decide_tuning, first_job, of_job
from stoker_operator.core.tuning_limits import limit_tuning
from stoker_operator.core.usage import Use
from stoker_operator.core.views import ClusterView, InvalidDataset, NodeView

# Reasons for which an entry stays as it is: a slip of its owner's, or of ours.
_SLIPS = frozenset({Reason.INVALID_SPEC, Reason.INTERNAL_ERROR})
_MOST_REQUEST = 64  # characters of an annotation, which may be anyone's text
MOST_REFUSAL = 300  # characters of the sentence of a refusal in an entry
_AT_ONCE = 1000  # nodes of one step


@dataclass(frozen=True, slots=True)
class NodeCacheWrite:
    """One NodeCache to create or change."""

    node: NodeView
    spec: NodeCacheSpec
    create: bool
    shared_neighbours: bool = False  # its sidecar reads neighbours that stand there once for several Datasets


@dataclass(frozen=True, slots=True)
class NodePlans:
    """The NodeCaches to write, by node, and the nodes of each Dataset's UID whose NodeCache has no room for it."""

    writes: tuple[NodeCacheWrite, ...]
    left_out: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class DatasetPlan:
    """All that was decided about one dataset."""

    dataset: Dataset
    placement: Placement
    listing: ListingState
    uses: tuple[Use, ...]
    cleaning: bool = False  # deleted and unused: every node gives it up
    live: frozenset[str] = frozenset()  # versions beside the current one that somebody needs and some node has
    # Versions, by node, for which held pods would go there.
    wanted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    uses_at: Mapping[str, Sequence[Use]] = field(default_factory=dict)  # the same uses by node
    tuning: TuningDecision = UNTUNED  # where no TrainingJob says otherwise
    queued: bool = False  # a TrainingJob that a queue holds names it
    due: float | None = None  # when it is to be warm, in seconds since the epoch
    givers: GivingNodes = NO_GIVERS  # beside the nodes that are to have it

    def times(self, now: float) -> Iterator[float]:
        """Yield when time alone may change something, in seconds since the epoch."""
        if self.listing.look_again is not None:
            yield self.listing.look_again
        if self.due is not None and self.due > now:
            yield self.due

    def nodes(self) -> tuple[str, ...]:
        """Return nodes that are given the dataset: the placed ones and the one that lists."""
        return self._nodes

    def share_nodes(self, other: "DatasetPlan") -> None:
        """Take over another plan's nodes, where they are the same, instead of putting thousands in order again."""
        if other.placement is self.placement and (other.listing.node, other.cleaning) == (
            self.listing.node,
            self.cleaning,
        ):
            vars(self)["_nodes"] = other.nodes()

    @cached_property
    def told_source(self) -> Source:
        """What nodes that do not list are told of its source: patterns may be many, and matter to who lists alone."""
        return self.dataset.spec.source.model_copy(update={"include": (), "exclude": ()}).plain()

    @cached_property
    def _nodes(self) -> tuple[str, ...]:
        if self.cleaning:
            return ()
        lister = {self.listing.node} if self.listing.node else set()
        return tuple(sorted(lister | self.placement.roles.keys()))


def plan_nodes(
    view: ClusterView,
    plans: Mapping[str, DatasetPlan],
    states: NodeStates,
    spoiled: Spoiled,
    held_back: Collection[str] = (),
) -> NodePlans:
    """Return the NodeCaches to write: new ones for nodes with a sidecar, and those whose spec differs.

    What nodes have of the Datasets in ``spoiled`` and ``held_back`` stays as it is.
    """
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


def frozen_uids(view: ClusterView, keys: Collection[str]) -> Mapping[str, InvalidDataset | None]:
    """Return UIDs of Datasets of which nodes keep what they have, each with why it is not taken, where it is not.

    Besides those of ``keys`` the ones that no longer parse or are refused, until they are deleted: pods may be reading
    them.
    """
    out: dict[str, InvalidDataset | None] = {
        view.datasets[key].metadata.uid: None for key in keys if key in view.datasets
    }
    invalid = view.invalid_datasets.values()
    return out | {one.metadata.uid: one for one in invalid if not one.metadata.deletion_timestamp}


def _kept(entry: NodeDataset, invalid: InvalidDataset | None) -> NodeDataset:
    """Return the entry of a Dataset of which nothing new is decided.

    One that no class lets be is fetched no further, and has no privilege that an earlier class gave it. A listing that
    is cut off goes on once it is taken again, since the status has its id.
    """
    if invalid is None or invalid.reason in _SLIPS:
        return entry
    calm = {"eager": False, "listing_id": "", "priority": min(0, entry.priority), "pinned": False}
    calm |= {"memory_names": False, "memory_bytes": None, "pages": ""}
    refused = shortened(invalid.sentence, MOST_REFUSAL) if invalid.closed else ""
    return entry.model_copy(update=calm | {"refused": refused})


def _entries(view: ClusterView, plan: DatasetPlan, states: NodeStates) -> list[tuple[str, NodeDataset]]:
    together = finished(dividing(view, plan))
    told = (node for node in plan.nodes() if is_told(plan, node, states))
    return [(node, entry_of(view, plan, node, states, together)) for node in told]


def is_told(plan: DatasetPlan, node: str, states: NodeStates) -> bool:
    """Tell whether a node has anything to do with the dataset yet.

    Before the first listing there is nothing to fetch: of a dataset for all nodes, who does not list is told with the
    version, unless pods are or want to be there, or it has anything of it. Thousands of nodes would be told twice.
    """
    if plan.listing.version or node == plan.listing.node or plan.dataset.spec.cache.replicas != "all":
        return True
    wanted = node in plan.uses_at or node in plan.wanted or plan.placement.roles.get(node) is Role.USER
    return wanted or states.get(plan.dataset.metadata.uid, node) != NOWHERE


def entry_of(
    view: ClusterView, plan: DatasetPlan, node: str, states: NodeStates, together: Mapping[str, Neighbourhood]
) -> NodeDataset:
    """Make the entry of one dataset on one node; ``together``: as ``dividing`` returned it."""
    entry = with_neighbours(node_dataset(view, plan, node, states), together.get(node))
    state = states.get(plan.dataset.metadata.uid, node)
    there = state.desired
    hosts = frozenset(manifest_hosts(view, plan.listing))
    if there is None or not keeps_manifest_hosts(state, plan.listing.version, hosts):
        return entry
    return there if there == entry.model_copy(update={"manifest_hosts": there.manifest_hosts}) else entry


def with_neighbours(entry: NodeDataset, group: Neighbourhood | None) -> NodeDataset:
    """Add to an entry which other nodes the node divides the Dataset with, if any."""
    if group is None:
        return entry
    groups = compacted(
        NeighbourGroups.model_construct(
            links=group.links, distances=group.distances, first=group.first, width=group.width
        )
    )
    return entry.model_copy(update={"peers": group.peers, "position": group.position, "groups": groups})


def dividing(view: ClusterView, plan: DatasetPlan) -> Steps[Mapping[str, Neighbourhood]]:
    """Return by node which others may give it files, and what else nodes that divide a Dataset have to know."""
    if not give_each_other(view, plan):
        return {}
    holders = plan.placement.nodes(Role.REPLICA, Role.USER) if wants_warming(plan) else ()
    # Nodes that give and take nothing are asked as the others are.
    reachable = [node for node in (*holders, *plan.givers.nodes) if holders and node in view.node_caches]
    known: list[HolderNode] = []
    for first in range(0, len(reachable), _AT_ONCE):
        some = ((node, view.node_caches[node].status.address) for node in reachable[first : first + _AT_ONCE])
        known += (HolderNode(node, address, *site_of(view, node)) for node, address in some if known_address(address))
        yield
    return (yield from near_neighbourhoods(known))


def give_each_other(view: ClusterView, plan: DatasetPlan) -> bool:
    """Tell whether nodes that are to have a Dataset give it to each other."""
    return view.neighbours.on and plan.dataset.spec.warm.neighbours is not NeighbourPolicy.OFF


def site_of(view: ClusterView, node: str) -> NodeSite:
    """Return where a node stands, as far as that, and the node, is known."""
    found = view.nodes.get(node)
    return site_by(found.labels, view.neighbours.rack_label) if found is not None else NodeSite()


@dataclass(frozen=True, slots=True)
class SettledNode:
    """What becomes of one node's NodeCache: the write, if it has to change, and the UIDs that it has no room for."""

    write: NodeCacheWrite | None = None
    left_out: tuple[str, ...] = ()


def settle_node(
    view: ClusterView, name: str, wanted: Sequence[NodeDataset], frozen: Mapping[str, InvalidDataset | None]
) -> SettledNode:
    """Return what becomes of a node that should have the entries ``wanted``, and keeps those of ``frozen`` UIDs."""
    cache, node = view.node_caches.get(name), view.nodes[name]
    if cache is None and not node.sidecar_ready:
        return SettledNode()
    there = cache.spec.datasets if cache else ()
    kept = (_kept(entry, frozen[entry.uid]) for entry in there if entry.uid in frozen)
    entries = (*wanted, *kept)
    fit = {entry.uid: entry for entry in fitting(entries, cache)}
    left_out = tuple(entry.uid for entry in entries if fit.get(entry.uid) is not entry)
    datasets = tuple(fit[uid] for uid in sorted(fit))
    # A NodeCache goes with its Node, and the disk stays: a new one is made before the node says what is there.
    blind = cache is None or (cache.spec.keep_unlisted and not cache.status.inventory)
    # What was found of Datasets that cannot be planned for at this moment waits for that.
    keep = () if cache is None or blind else tuple(sorted(found_on_disk(cache) & frozen.keys()))
    origins = view.shares.rows(name, _origins(datasets))[:MOST_ORIGINS] if view.shares.limits(name) else ()
    pace = report_seconds(len(view.nodes), cache.spec.report_seconds if cache is not None else 0)
    spec = NodeCacheSpec(
        datasets=datasets,
        keep_unlisted=blind,
        keep=keep,
        origins=origins,
        leaving=node.leaving,
        report_seconds=pace,
    )
    differs = cache is None or _canonical(cache.spec) != spec
    shares = cache is not None and cache.status.shared_neighbours
    return SettledNode(NodeCacheWrite(node, spec, cache is None, shares) if differs else None, left_out)


def _origins(entries: Iterable[NodeDataset]) -> frozenset[str]:
    """Return the names of what caps the sources of these entries."""
    found = (origin_names(entry.source) for entry in entries)
    return frozenset(name for names in found if names is not None for name in names.all)


def _canonical(spec: NodeCacheSpec) -> NodeCacheSpec:
    datasets = tuple(sorted(spec.datasets, key=lambda entry: entry.uid))
    return spec.model_copy(update={"datasets": datasets})


def node_dataset(view: ClusterView, plan: DatasetPlan, node: str, states: NodeStates) -> NodeDataset:
    """Make the entry of one dataset on one node."""
    dataset, listing = plan.dataset, plan.listing
    spec, warm, lists = dataset.spec, dataset.spec.warm, node == listing.node
    return NodeDataset(
        namespace=dataset.metadata.namespace,
        name=dataset.metadata.name,
        uid=dataset.metadata.uid,
        generation=dataset.metadata.generation,
        source=spec.source if lists else plan.told_source,
        listing_id=listing.id if lists else "",
        version=listing.version,
        retain=_retained(plan, node, states),
        manifest_hosts=hosts_told(view, plan.listing, node),
        older=tuple(_older(view, plan, node, states, version) for version in _coming(plan, node)),
        warm_paths=warm.told_paths,
        eager=plan.placement.roles.get(node) in (Role.REPLICA, Role.USER) and wants_warming(plan),
        priority=warm.priority,
        warm_by=None if plan.due is None else format_time(plan.due),
        paused=warm.paused,
        bytes_per_second=clamp(parse_quantity(warm.bandwidth_limit)) if warm.bandwidth_limit else None,
        quota_bytes=0 if node in plan.placement.starved else _quota_bytes(spec.cache),
        pinned=spec.cache.pinned,
        pages=pages_request(dataset),
        memory_names=spec.cache.memory.names,
        memory_bytes=_memory_bytes(spec.cache),
        allowed_namespaces=spec.access.namespaces,
        anonymous=view.terms.get(dataset.key, NO_TERMS).anonymous,
        observe=spec.observe,
        tuning=_tuning(view, plan, node),
    )


def _tuning(view: ClusterView, plan: DatasetPlan, node: str) -> NodeTuning:
    """Return what a node is told: on the nodes of a TrainingJob's workers its word goes before the Dataset's."""
    job = first_job(_jobs_on(view, plan, node))
    if job is None:
        return plan.tuning.told
    terms = view.terms.get(plan.dataset.key, NO_TERMS)
    allowed = limit_tuning(job.spec.tuning, terms.name, terms.tuning).tuning
    return decide_tuning(of_job(plan.dataset.spec.tuning, allowed), terms.tuning, view.tuning).told


def _jobs_on(view: ClusterView, plan: DatasetPlan, node: str) -> Iterator[TrainingJob]:
    """Find the TrainingJobs of the Dataset's own namespace whose workers use it on a node."""
    home = plan.dataset.metadata.namespace
    for use in plan.uses_at.get(node, ()) if view.training_jobs else ():
        pod = view.pods.get(f"{use.namespace}/{use.pod}") if use.namespace == home else None
        job = view.training_jobs.get(f"{home}/{pod.labels.get(names.LABEL_TRAINING_JOB, '')}") if pod else None
        if job is not None:
            yield job


def _quota_bytes(cache: Cache) -> int | None:
    return clamp(parse_quantity(cache.quota)) if cache.quota else None


def pages_request(dataset: Dataset) -> str:
    """Name the request that the page cache is filled for: that of the last `stoker warm`; empty where none is."""
    asked = dataset.metadata.annotations.get(names.ANNOTATION_WARM_REQUESTED, "")
    return shortened(asked, _MOST_REQUEST) or "spec" if dataset.spec.warm.pages else ""


def _memory_bytes(cache: Cache) -> int | None:
    return clamp(parse_quantity(cache.memory.bytes)) or None if cache.memory.bytes else None


def wants_warming(plan: DatasetPlan) -> bool:
    """Tell whether it is fetched ahead.

    Eager: always. OnDemand: once a pod uses it or waits for it, or a job that a queue holds names it: the next job's
    data comes while this one computes, behind what this one reads. All: after `stoker warm`, until it is deleted.
    """
    if plan.dataset.metadata.deletion_timestamp:
        return False
    if names.ANNOTATION_WARM_REQUESTED in plan.dataset.metadata.annotations:
        return True
    policy = plan.dataset.spec.warm.policy
    if policy is not WarmPolicy.ON_DEMAND:
        return policy is WarmPolicy.EAGER
    return plan.queued or bool(plan.uses) or Role.USER in plan.placement.roles.values()


def _retained(plan: DatasetPlan, node: str, states: NodeStates) -> tuple[str, ...]:
    """Find the versions that mounts read, what others need and is here, and what the new version is linked from."""
    state = states.get(plan.dataset.metadata.uid, node)
    mounted = {use.version for use in plan.uses_at.get(node, ()) if use.on_node}
    previous = {state.reported.version} if state.reported else set()
    kept = mounted | previous | (plan.live & versions_of(state))
    return tuple(sorted(kept - {"", plan.listing.version, *_coming(plan, node)}))


def _coming(plan: DatasetPlan, node: str) -> tuple[str, ...]:
    return older_versions(plan.uses_at.get(node, ()), plan.wanted.get(node, frozenset()), plan.live)


def _older(view: ClusterView, plan: DatasetPlan, node: str, states: NodeStates, version: str) -> OlderVersion:
    holders = (name for name in states.with_manifest(plan.dataset.metadata.uid, version) if name != node)
    ready = (name for name in holders if name in view.nodes and view.nodes[name].ready)
    return OlderVersion(version=version, manifest_hosts=addresses(view, islice(ready, MANIFEST_SOURCES)))

"""The wanted spec of every NodeCache, and the NodeCaches that differ from it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from stoker_api import names
from stoker_api.datasets.dataset import Cache, Dataset, PeerPolicy, PeerProof, WarmPolicy
from stoker_api.datasets.dataset_source import Source
from stoker_api.datasets.origin import MOST_ORIGINS, origin_names
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import parse_quantity, shortened
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset import NodeDataset, OlderVersion, PeerLinks
from stoker_api.node_caches.nodecache import NodeCacheSpec
from stoker_api.node_caches.peers import PeerCertificate
from stoker_api.profiles.tuning import NodeTuning
from stoker_api.times import format_time
from stoker_operator.core.classes.class_limits import NO_TERMS
from stoker_operator.core.classes.tuning import UNTUNED, TuningDecision, decide_tuning, first_job, limit_tuning, of_job
from stoker_operator.core.peers.districts import HolderNode
from stoker_operator.core.peers.peer_groups import NodeSite, PeerGroup, near_peer_groups, site_by
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.plans.entry_room import fitting
from stoker_operator.core.plans.giving_nodes import (
    MANIFEST_SOURCES,
    NO_GIVERS,
    GivingNodes,
    address_of,
    addresses,
    hosts_told,
    known_address,
)
from stoker_operator.core.plans.listing import ListingState
from stoker_operator.core.plans.live_versions import older_versions, versions_of
from stoker_operator.core.plans.report_pace import report_seconds
from stoker_operator.core.views.cluster import ClusterView, InvalidDataset, NodeView
from stoker_operator.core.views.node_states import NOWHERE, NodeStates, found_on_disk
from stoker_operator.core.views.resources import clamp
from stoker_operator.core.views.usage import Use

# Reasons for which an entry stays unchanged: a mistake of the Dataset's owner, or of the operator.
_SLIPS = frozenset({Reason.INVALID_SPEC, Reason.INTERNAL_ERROR})
_MOST_REQUEST = 64  # characters of an annotation, which may be any text
MOST_REFUSAL = 300  # characters of a refusal's message in an entry
_NO_GROUPS, _ADOPTED = PeerLinks(), PeerLinks(adopted=True)
_BY_CHECKSUM = PeerLinks(proof=PeerProof.CHECKSUM)


@dataclass(frozen=True, slots=True)
class NodeCacheWrite:
    """One NodeCache to create or change."""

    node: NodeView
    spec: NodeCacheSpec
    create: bool
    shared_neighbours: bool = False  # its sidecar reads peers that are stored once for several Datasets


@dataclass(frozen=True, slots=True)
class NodePlans:
    """The NodeCaches to write, and by Dataset UID the nodes whose NodeCache has no room for it."""

    writes: tuple[NodeCacheWrite, ...]
    left_out: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class DatasetPlan:
    """All decisions about one Dataset."""

    dataset: Dataset
    placement: Placement
    listing: ListingState
    uses: tuple[Use, ...]
    cleaning: bool = False  # deleted and unused: every node removes it
    live: frozenset[str] = frozenset()  # versions in use, other than the current one, that some node has
    # Versions of gated pods that would go to a node, by node.
    wanted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    uses_at: Mapping[str, Sequence[Use]] = field(default_factory=dict)  # the same uses by node
    tuning: TuningDecision = UNTUNED  # unless a TrainingJob overrides it
    queued: bool = False  # a queued TrainingJob names it
    due: float | None = None  # the deadline for warm data, in seconds since the epoch
    givers: GivingNodes = NO_GIVERS  # in addition to the placed nodes

    def times(self, now: float) -> Iterator[float]:
        """Yield the times at which the plan may change by time alone, in seconds since the epoch."""
        if self.listing.look_again is not None:
            yield self.listing.look_again
        if self.due is not None and self.due > now:
            yield self.due

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that get the Dataset: the placed ones and the lister."""
        return self._nodes

    def readers(self) -> tuple[str, ...]:
        """Return the nodes that may read its credentials: placed nodes, without those that only adopt it."""
        return self._readers

    def share_nodes(self, other: "DatasetPlan") -> None:
        """Reuse another plan's equal nodes instead of sorting thousands again."""
        if other.placement is self.placement and (other.listing.node, other.cleaning) == (
            self.listing.node,
            self.cleaning,
        ):
            vars(self)["_nodes"] = other.nodes()
            vars(self)["_readers"] = other.readers()

    @cached_property
    def told_source(self) -> Source:
        """The source for nodes that do not list.

        It has no patterns: there may be many, and only the lister needs them.
        """
        return self.dataset.spec.source.model_copy(update={"include": (), "exclude": ()}).plain()

    @cached_property
    def adopted_source(self) -> Source:
        """The source for nodes that claim to have its bytes. It has no credentials."""
        return self.told_source.model_copy(update={"credentials": None})

    @cached_property
    def _nodes(self) -> tuple[str, ...]:
        if self.cleaning:
            return ()
        lister = {self.listing.node} if self.listing.node else set()
        return tuple(sorted(lister | self.placement.roles.keys()))

    @cached_property
    def _readers(self) -> tuple[str, ...]:
        adopted = self.placement.adopted - {self.listing.node}
        return tuple(node for node in self._nodes if node not in adopted) if adopted else self._nodes


def frozen_uids(view: ClusterView, keys: Collection[str]) -> Mapping[str, InvalidDataset | None]:
    """Return UIDs of Datasets whose entries nodes keep, each with its InvalidDataset, if any.

    These are the Datasets in ``keys``, and Datasets that do not parse or are refused. Pods may read those until they
    are deleted.
    """
    out: dict[str, InvalidDataset | None] = {
        view.datasets[key].metadata.uid: None for key in keys if key in view.datasets
    }
    invalid = view.invalid_datasets.values()
    return out | {one.metadata.uid: one for one in invalid if not one.metadata.deletion_timestamp}


def _kept(entry: NodeDataset, invalid: InvalidDataset | None) -> NodeDataset:
    """Return the entry of a Dataset without a new decision.

    A Dataset that its class refuses stops fetching and loses the privileges of an earlier class. An interrupted listing
    continues after the Dataset is accepted again, because the status has its id.
    """
    if invalid is None or invalid.reason in _SLIPS:
        return entry
    calm = {"eager": False, "listing_id": "", "priority": min(0, entry.priority), "pinned": False}
    calm |= {"memory_names": False, "memory_bytes": None, "pages": ""}
    refused = shortened(invalid.sentence, MOST_REFUSAL) if invalid.closed else ""
    return entry.model_copy(update=calm | {"refused": refused})


def is_told(plan: DatasetPlan, node: str, states: NodeStates) -> bool:
    """Return True if a node needs an entry for the Dataset now.

    Before the first listing there is nothing to fetch. If replicas is "all", only the lister and nodes with pods,
    coming pods or data get an entry then. The rest get it with the version, which saves thousands of nodes one write.
    """
    if plan.listing.version or node == plan.listing.node or plan.dataset.spec.cache.replicas != "all":
        return True
    wanted = node in plan.uses_at or node in plan.wanted or plan.placement.roles.get(node) is Role.USER
    return wanted or states.get(plan.dataset.metadata.uid, node) != NOWHERE


def with_peers(entry: NodeDataset, group: PeerGroup | None) -> NodeDataset:
    """Add to an entry the peers with which the node divides the Dataset, if any."""
    if group is None:
        return entry
    groups = PeerLinks(
        links=group.links,
        distances=group.distances,
        first=group.first,
        width=group.width,
        names=group.names,
        proof=entry.groups.proof,
    )
    return entry.model_copy(update={"peers": group.peers, "position": group.position, "groups": groups})


def dividing(view: ClusterView, plan: DatasetPlan) -> Mapping[str, PeerGroup]:
    """Return the peers of each node and the shares of nodes that divide a Dataset."""
    if not give_each_other(view, plan):
        return {}
    holders = plan.placement.nodes(Role.REPLICA, Role.USER) if wants_warming(plan) else ()
    # Serving nodes that fetch nothing are asked like all peers.
    reachable = [node for node in (*holders, *plan.givers.nodes) if holders and node in view.node_caches]
    addresses = ((node, address_of(view, node)) for node in reachable)
    return near_peer_groups(
        [HolderNode(node, address, *site_of(view, node)) for node, address in addresses if known_address(address)]
    )


def give_each_other(view: ClusterView, plan: DatasetPlan) -> bool:
    """Return True if the nodes of a Dataset share it with each other."""
    return view.peer_settings.on and plan.dataset.spec.warm.peers is not PeerPolicy.OFF


def site_of(view: ClusterView, node: str) -> NodeSite:
    """Return a node's zone and rack, or empty values if they are unknown."""
    found = view.nodes.get(node)
    return site_by(found.labels, view.peer_settings.rack_label) if found is not None else NodeSite()


@dataclass(frozen=True, slots=True)
class SettledNode:
    """The new state of one node's NodeCache: the write, if it changes, and the UIDs that it has no room for."""

    write: NodeCacheWrite | None = None
    left_out: tuple[str, ...] = ()


def settle_node(
    view: ClusterView, name: str, wanted: Sequence[NodeDataset], frozen: Mapping[str, InvalidDataset | None]
) -> SettledNode:
    """Return the new state of a node with the entries ``wanted``. It also keeps the entries of ``frozen`` UIDs."""
    cache, node = view.node_caches.get(name), view.nodes[name]
    if cache is None and not node.sidecar_ready:
        return SettledNode()
    there = cache.spec.datasets if cache else ()
    kept = (_kept(entry, frozen[entry.uid]) for entry in there if entry.uid in frozen)
    entries = (*wanted, *kept)
    fit = {entry.uid: entry for entry in fitting(entries, cache)}
    left_out = tuple(entry.uid for entry in entries if fit.get(entry.uid) is not entry)
    datasets = tuple(fit[uid] for uid in sorted(fit))
    # A NodeCache is deleted with its Node, but the disk stays. The new NodeCache exists before the node reports the
    # disk.
    blind = cache is None or (cache.spec.keep_unlisted and not cache.status.inventory)
    # Keep data of Datasets that cannot be planned now or have no room here.
    crowded = {uid for uid in left_out if uid not in fit}
    found = found_on_disk(cache) & (frozen.keys() | crowded) if cache is not None else frozenset()
    keep = () if blind else tuple(sorted(found | crowded.intersection(entry.uid for entry in there)))
    origins = view.shares.rows(name, _origins(datasets))[:MOST_ORIGINS] if view.shares.limits(name) else ()
    pace = report_seconds(len(view.nodes), cache.spec.report_seconds if cache is not None else 0)
    spec = NodeCacheSpec(
        datasets=datasets,
        keep_unlisted=blind,
        keep=keep,
        origins=origins,
        leaving=node.leaving,
        report_seconds=pace,
        peer=cache.spec.peer if cache is not None else PeerCertificate(),
    )
    differs = cache is None or _canonical(cache.spec) != spec
    shares = cache is not None and cache.status.shared_neighbours
    return SettledNode(NodeCacheWrite(node, spec, cache is None, shares) if differs else None, left_out)


def _origins(entries: Iterable[NodeDataset]) -> frozenset[str]:
    """Return the names of the origins that may cap the sources of these entries."""
    found = (origin_names(entry.source) for entry in entries)
    return frozenset(name for names in found if names is not None for name in names.all)


def _canonical(spec: NodeCacheSpec) -> NodeCacheSpec:
    datasets = tuple(sorted(spec.datasets, key=lambda entry: entry.uid))
    return spec.model_copy(update={"datasets": datasets})


def node_dataset(view: ClusterView, plan: DatasetPlan, node: str, states: NodeStates) -> NodeDataset:
    """Build the entry of one Dataset on one node."""
    dataset, listing = plan.dataset, plan.listing
    spec, warm, lists = dataset.spec, dataset.spec.warm, node == listing.node
    adopted = node in plan.placement.adopted and not lists
    terms = view.terms.get(dataset.key, NO_TERMS)
    return NodeDataset(
        namespace=dataset.metadata.namespace,
        name=dataset.metadata.name,
        uid=dataset.metadata.uid,
        generation=dataset.metadata.generation,
        source=spec.source if lists else plan.adopted_source if adopted else plan.told_source,
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
        anonymous=terms.anonymous,
        observe=spec.observe,
        tuning=_tuning(view, plan, node),
        groups=_ADOPTED if adopted else _BY_CHECKSUM if terms.proof is PeerProof.CHECKSUM else _NO_GROUPS,
    )


def _tuning(view: ClusterView, plan: DatasetPlan, node: str) -> NodeTuning:
    """Return a node's tuning. On nodes with a TrainingJob's workers, the job's tuning wins over the Dataset's."""
    job = first_job(_jobs_on(view, plan, node))
    if job is None:
        return plan.tuning.told
    terms = view.terms.get(plan.dataset.key, NO_TERMS)
    allowed = limit_tuning(job.spec.tuning, terms.name, terms.tuning).tuning
    return decide_tuning(of_job(plan.dataset.spec.tuning, allowed), terms.tuning, view.tuning).told


def _jobs_on(view: ClusterView, plan: DatasetPlan, node: str) -> Iterator[TrainingJob]:
    """Yield the TrainingJobs of the Dataset's own namespace whose workers use it on a node."""
    home = plan.dataset.metadata.namespace
    for use in plan.uses_at.get(node, ()) if view.training_jobs else ():
        pod = view.pods.get(f"{use.namespace}/{use.pod}") if use.namespace == home else None
        job = view.training_jobs.get(f"{home}/{pod.labels.get(names.LABEL_TRAINING_JOB, '')}") if pod else None
        if job is not None:
            yield job


def _quota_bytes(cache: Cache) -> int | None:
    return clamp(parse_quantity(cache.quota)) if cache.quota else None


def pages_request(dataset: Dataset) -> str:
    """Return the request to fill the page cache for, or "" if warm.pages is off.

    It is the text of the last `stoker warm`, or "spec" without one.
    """
    asked = dataset.metadata.annotations.get(names.ANNOTATION_WARM_REQUESTED, "")
    return shortened(asked, _MOST_REQUEST) or "spec" if dataset.spec.warm.pages else ""


def _memory_bytes(cache: Cache) -> int | None:
    return clamp(parse_quantity(cache.memory.bytes)) or None if cache.memory.bytes else None


def wants_warming(plan: DatasetPlan) -> bool:
    """Return True if nodes fetch the Dataset in advance.

    Eager: always. OnDemand: once a pod uses it or waits for it, or a queued job names it. The next job's data then
    arrives while the current one computes, at a lower priority. All policies: after `stoker warm`, until deletion.
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
    """Return the older versions that a node keeps.

    These are mounted versions, versions in use that are here, and the one that the new version links files from.
    """
    state = states.get(plan.dataset.metadata.uid, node)
    mounted = {use.version for use in plan.uses_at.get(node, ()) if use.on_node}
    previous = {state.reported.version} if state.reported else set()
    kept = mounted | previous | (plan.live & versions_of(state))
    if node in plan.placement.adopted:
        kept |= versions_of(state)
    return tuple(sorted(kept - {"", plan.listing.version, *_coming(plan, node)}))


def _coming(plan: DatasetPlan, node: str) -> tuple[str, ...]:
    return older_versions(plan.uses_at.get(node, ()), plan.wanted.get(node, frozenset()), plan.live)


def _older(view: ClusterView, plan: DatasetPlan, node: str, states: NodeStates, version: str) -> OlderVersion:
    holders = (name for name in states.with_manifest(plan.dataset.metadata.uid, version) if name != node)
    ready = (name for name in holders if name in view.nodes and view.nodes[name].ready)
    return OlderVersion(version=version, manifest_hosts=addresses(view, islice(ready, MANIFEST_SOURCES)))

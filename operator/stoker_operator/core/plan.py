"""What every NodeCache should say, and which of them differ from that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stoker_api import names
from stoker_api.dataset import Dataset, WarmPolicy
from stoker_api.meta import parse_quantity
from stoker_api.nodecache import NodeCache, NodeCacheSpec, NodeDataset
from stoker_operator.core.listing import ListingState
from stoker_operator.core.node_states import NodeStates
from stoker_operator.core.placement import Placement, Role
from stoker_operator.core.usage import Use
from stoker_operator.core.views import ClusterView, NodeView

MANIFEST_SOURCES = 3  # nodes that a new holder may ask for the manifest: one may be down, two at once are rare


@dataclass(frozen=True, slots=True)
class NodeCacheWrite:
    """One NodeCache to create or change."""

    node: NodeView
    spec: NodeCacheSpec
    create: bool


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    """All that was decided about one dataset."""

    dataset: Dataset
    placement: Placement
    listing: ListingState
    uses: tuple[Use, ...]
    cleaning: bool = False  # deleted and unused: every node gives it up

    def nodes(self) -> tuple[str, ...]:
        """Return nodes that are given the dataset: the placed ones and the one that lists."""
        if self.cleaning:
            return ()
        lister = {self.listing.node} if self.listing.node else set()
        return tuple(sorted(lister | self.placement.roles.keys()))


def plan_nodes(view: ClusterView, plans: Mapping[str, DatasetPlan], states: NodeStates) -> tuple[NodeCacheWrite, ...]:
    """Return the NodeCaches to write: new ones for nodes with a sidecar, and those whose spec differs.

    Sorted by node.
    """
    desired: dict[str, list[NodeDataset]] = {}
    for plan in plans.values():
        for node in plan.nodes():
            desired.setdefault(node, []).append(node_dataset(view, plan, node, states))
    return tuple(_writes(view, desired))


def _writes(view: ClusterView, desired: Mapping[str, list[NodeDataset]]) -> Iterator[NodeCacheWrite]:
    for name, node in sorted(view.nodes.items()):
        cache = view.node_caches.get(name)
        if cache is None and not node.sidecar_ready:
            continue
        entries = (*desired.get(name, ()), *_frozen_entries(view, cache))
        spec = NodeCacheSpec(datasets=tuple(sorted(entries, key=lambda entry: entry.uid)))
        if cache is None or _canonical(cache.spec) != spec:
            yield NodeCacheWrite(node, spec, create=cache is None)


def _canonical(spec: NodeCacheSpec) -> NodeCacheSpec:
    return NodeCacheSpec(datasets=tuple(sorted(spec.datasets, key=lambda entry: entry.uid)))


def _frozen_entries(view: ClusterView, cache: NodeCache | None) -> Iterator[NodeDataset]:
    """Keep what a node holds of a Dataset that no longer parses, until that is deleted: pods may be reading it."""
    for entry in cache.spec.datasets if cache else ():
        invalid = view.invalid_datasets.get(f"{entry.namespace}/{entry.name}")
        if invalid is not None and not invalid.metadata.deletion_timestamp:
            yield entry


def node_dataset(view: ClusterView, plan: DatasetPlan, node: str, states: NodeStates) -> NodeDataset:
    """Make the entry of one dataset on one node."""
    dataset, listing = plan.dataset, plan.listing
    spec, warm = dataset.spec, dataset.spec.warm
    return NodeDataset(
        namespace=dataset.metadata.namespace,
        name=dataset.metadata.name,
        uid=dataset.metadata.uid,
        generation=dataset.metadata.generation,
        source=spec.source,
        listing_id=listing.id if node == listing.node else "",
        version=listing.version,
        retain=_retained(plan, node, states),
        manifest_urls=_manifest_urls(view, plan, node),
        eager=plan.placement.roles.get(node) in (Role.REPLICA, Role.USER) and wants_warming(plan),
        priority=warm.priority,
        paused=warm.paused,
        bytes_per_second=parse_quantity(warm.bandwidth_limit) if warm.bandwidth_limit else None,
        quota_bytes=parse_quantity(spec.cache.quota) if spec.cache.quota else None,
        pinned=spec.cache.pinned,
        allowed_namespaces=spec.access.namespaces,
    )


def wants_warming(plan: DatasetPlan) -> bool:
    """Tell whether it is fetched ahead.

    Eager: always. OnDemand: once a pod uses it or waits for it. All: after `stoker warm`, until it is deleted.
    """
    if plan.dataset.metadata.deletion_timestamp:
        return False
    if names.ANNOTATION_WARM_REQUESTED in plan.dataset.metadata.annotations:
        return True
    policy = plan.dataset.spec.warm.policy
    in_use = bool(plan.uses) or Role.USER in plan.placement.roles.values()
    return policy is WarmPolicy.EAGER or (policy is WarmPolicy.ON_DEMAND and in_use)


def _retained(plan: DatasetPlan, node: str, states: NodeStates) -> tuple[str, ...]:
    """Find the versions that mounts read, and the one that the new version is being linked from."""
    report = states.get(plan.dataset.metadata.uid, node).reported
    mounted = {use.version for use in plan.uses if use.node == node and use.on_node}
    previous = {report.version} if report else set()
    return tuple(sorted((mounted | previous) - {"", plan.listing.version}))


def _manifest_urls(view: ClusterView, plan: DatasetPlan, node: str) -> tuple[str, ...]:
    version, uid = plan.listing.version, plan.dataset.metadata.uid
    # The node that listed has the manifest; for all others the list stays the same while they warm.
    if not version or node == plan.listing.node:
        return ()
    hosts = [name for name in plan.listing.holders[:MANIFEST_SOURCES] if name != node]
    addresses = [view.node_caches[name].status.address for name in hosts]
    return tuple(f"http://{address}/manifests/{uid}/{version}" for address in addresses if address)

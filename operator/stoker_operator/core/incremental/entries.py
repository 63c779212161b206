"""The Datasets' entries in NodeCaches, and the NodeCaches to write, kept across passes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import force_setattr, replace

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_operator.core.classes.class_limits import NO_TERMS
from stoker_operator.core.classes.tuning import says_something
from stoker_operator.core.incremental.node_state_cache import NodeStateCache
from stoker_operator.core.peers.peer_groups import PeerGroup
from stoker_operator.core.placement.node_roles import Role
from stoker_operator.core.plans.giving_nodes import MANIFEST_SOURCES, keeps_manifest_hosts, manifest_hosts
from stoker_operator.core.plans.live_versions import versions_of
from stoker_operator.core.plans.plan import (
    DatasetPlan,
    NodeCacheWrite,
    NodePlans,
    dividing,
    is_told,
    node_dataset,
    settle_node,
    wants_warming,
    with_peers,
)
from stoker_operator.core.plans.report_pace import report_step
from stoker_operator.core.views.cluster import ClusterView, InvalidDataset
from stoker_operator.core.views.failed_objects import FailedObjects
from stoker_operator.core.views.node_states import NodeState, NodeStates

_NESTED = ("source", "tuning")  # nested models, which are slow to compare unless they are the same object


class EntryMaker:
    """The entries of one Dataset. ``together``: the result of ``plan.dividing``."""

    def __init__(
        self, view: ClusterView, plan: DatasetPlan, states: NodeStates, together: Mapping[str, PeerGroup]
    ) -> None:
        self._view: Final = view
        self._plan: Final = plan
        self._states: Final = states
        self._together: Final = together
        listing = plan.listing
        # The few nodes whose entries differ.
        self._apart: Final = {listing.node, *listing.holders[:MANIFEST_SOURCES], *plan.placement.starved}
        self._apart.update(plan.uses_at, plan.wanted, plan.placement.adopted)
        self._hosts: Final = frozenset(manifest_hosts(view, listing))
        self._alike: Final[dict[bool, NodeDataset]] = {}  # the shared entries, by whether the node has a place

    def entry(self, node: str) -> NodeDataset:
        """Return a node's entry. Reuse the object in its NodeCache if that is equal."""
        state = self._states.get(self._plan.dataset.metadata.uid, node)
        if node in self._apart or self._retains(state):
            entry = node_dataset(self._view, self._plan, node, self._states)
        else:
            entry = self._plain(node, state.desired)
        group = self._together.get(node)
        keeps_hosts = keeps_manifest_hosts(state, entry.version, self._hosts)
        if state.desired is not None and _says(state.desired, entry, group, keeps_hosts):
            return state.desired
        return with_peers(entry, group)

    def _retains(self, state: NodeState) -> bool:
        """Return True if a node may have to keep a version other than the current one."""
        if state.reported is not None and state.reported.version not in ("", self._plan.listing.version):
            return True
        return bool(self._plan.live) and not self._plan.live.isdisjoint(versions_of(state))

    def _plain(self, node: str, there: NodeDataset | None) -> NodeDataset:
        placed = self._plan.placement.roles.get(node) in (Role.REPLICA, Role.USER)
        known = self._alike.get(placed)
        if known is None:
            known = self._alike[placed] = node_dataset(self._view, self._plan, node, self._states)
        if there is None:
            return known
        for name in _NESTED:
            share_value(known, there, name)
        return known


def share_peers(entry: NodeDataset, other: NodeDataset) -> None:
    """Reuse the equal peers of another entry of the same node. They take 340 of an entry's 1,200 bytes.

    Datasets on the same nodes have equal peers.
    """
    for name in ("peers", "groups"):
        share_value(entry, other, name)


def share_value(entry: NodeDataset, other: NodeDataset, name: str) -> None:
    """Reuse the equal value of another entry's field."""
    ours, theirs = getattr(entry, name), getattr(other, name)
    if ours is not theirs and ours == theirs:
        force_setattr(entry, name, theirs)


def _says(there: NodeDataset, entry: NodeDataset, group: PeerGroup | None, keeps_hosts: bool) -> bool:
    """Return True if the NodeCache already has this entry with these peers. ``keeps_hosts``: ignore manifest hosts."""
    same: dict[str, object] = {"manifest_hosts": there.manifest_hosts} if keeps_hosts else {}
    if group is not None:
        groups = there.groups
        told = (there.position, groups.links, groups.distances, groups.first, groups.width, there.peers)
        if told != (group.position, group.links, group.distances, group.first, group.width, group.peers):
            return False
        if (groups.proof, groups.names) != (entry.groups.proof, group.names):
            return False
        same |= {"peers": there.peers, "position": there.position, "groups": groups}
    return replace(entry, **same) == there


Together = Mapping[str, PeerGroup]


@dataclass(frozen=True, slots=True)
class _ToldNodes:
    """The state of a Dataset at the last update of its entries."""

    plan: DatasetPlan
    shared: tuple[object, ...]
    together: Together


class IncrementalEntries:
    """The wanted entries by node and Dataset key."""

    def __init__(self, states: NodeStateCache) -> None:
        self.by_node: Final[dict[str, dict[str, NodeDataset]]] = {}
        self._states: Final = states
        self._told: Final[dict[str, _ToldNodes]] = {}

    def tell(
        self,
        view: ClusterView,
        plan: DatasetPlan,
        moved: Collection[str],
        news: Collection[str],
        spoiled: FailedObjects,
    ) -> set[str]:
        """Update the entries of one Dataset. Return the nodes whose entry changed.

        ``moved``: nodes with a changed state of the Dataset. ``news``: nodes with a changed address or zone. On an
        error, remove all entries of the Dataset and record the error in ``spoiled``.
        """
        key = plan.dataset.key
        old = self._told.get(key)
        new = spoiled.attempt(key, partial(_told, view, plan, old, news))
        if new is None:
            return self.forget(key)
        self._told[key] = new
        changed = set[str]()
        if old is not None and old.plan.nodes() is not plan.nodes():
            changed |= {node for node in set(old.plan.nodes()).difference(plan.nodes()) if self._take(node, key)}
        nodes: Sequence[str] = (
            plan.nodes() if old is None or _is_other(view, old, new) else sorted(_nodes(old.plan, plan, moved))
        )
        maker = EntryMaker(view, plan, self._states, new.together)
        if not spoiled.succeeds(key, partial(self._tell, maker, plan, nodes, changed)):
            changed |= self.forget(key)
        return changed

    def forget(self, key: str) -> set[str]:
        """Remove the entries of one Dataset. Return the nodes that had one."""
        old = self._told.pop(key, None)
        return {node for node in old.plan.nodes() if self._take(node, key)} if old is not None else set()

    def share(self, node: str) -> None:
        """Reuse the equal entries in a node's NodeCache instead of copies."""
        entries = self.by_node.get(node, {})
        for key, entry in entries.items():
            there = self._states.get(entry.uid, node).desired
            if there is not None and there is not entry and there == entry:
                entries[key] = there

    def _tell(self, maker: EntryMaker, plan: DatasetPlan, nodes: Collection[str], changed: set[str]) -> None:
        """Update the entries of ``nodes``. Add nodes with a changed entry to ``changed``."""
        key = plan.dataset.key
        for node in nodes:
            if not is_told(plan, node, self._states):
                if self._take(node, key):
                    changed.add(node)
                continue
            entry, entries = maker.entry(node), self.by_node.setdefault(node, {})
            known = entries.get(key)
            if known is None or (known is not entry and known != entry):
                if entries:
                    share_peers(entry, entries[next(reversed(entries))])
                entries[key] = entry
                changed.add(node)

    def _take(self, node: str, key: str) -> bool:
        entries = self.by_node.get(node, {})
        gone = entries.pop(key, None)
        if not entries:
            self.by_node.pop(node, None)
        return gone is not None


def _told(view: ClusterView, plan: DatasetPlan, old: _ToldNodes | None, news: Collection[str]) -> _ToldNodes:
    """Compute the parts of the entries that all nodes of a Dataset share."""
    meta, listing, spec = plan.dataset.metadata, plan.listing, plan.dataset.spec
    warms, roles = wants_warming(plan), plan.placement.roles
    shared = (
        (roles, plan.givers.nodes),
        warms,
        (meta.uid, meta.generation, meta.annotations, bool(meta.deletion_timestamp)),
        (spec, view.terms.get(plan.dataset.key, NO_TERMS), plan.tuning.told),
        (listing.id, listing.node, listing.version, listing.holders, manifest_hosts(view, listing)),
        (plan.placement.starved, plan.live, plan.due),
        _tuned_by_jobs(view, plan),
    )
    if old is not None and old.shared[:2] == shared[:2] and not any(node in roles for node in news):
        together = old.together
    else:
        together = dividing(view, plan)
    return _ToldNodes(plan, shared, together)


def _is_other(view: ClusterView, old: _ToldNodes, new: _ToldNodes) -> bool:
    """Return True if more changed than one node's report or request."""
    return (
        old.shared != new.shared
        or (old.together is not new.together and old.together != new.together)
        or bool(new.plan.live)  # all nodes that fetch an older version get its holders
        or _tuned_by_jobs(view, new.plan)
    )


def _tuned_by_jobs(view: ClusterView, plan: DatasetPlan) -> bool:
    """Return True if a TrainingJob may override the Dataset's tuning on a node."""
    home = plan.dataset.metadata.namespace
    jobs = (one for one in view.training_jobs.values() if one.metadata.namespace == home)
    return any(says_something(job.spec.tuning) for job in jobs)


def _nodes(old: DatasetPlan, new: DatasetPlan, moved: Collection[str]) -> set[str]:
    found = {*moved}
    if old.nodes() is not new.nodes():
        found |= set(new.nodes()).difference(old.nodes())  # for example when a cleanup stopped
    if old.uses != new.uses:
        found |= {node for node in {*old.uses_at, *new.uses_at} if old.uses_at.get(node) != new.uses_at.get(node)}
    found |= {node for node in {*old.wanted, *new.wanted} if old.wanted.get(node) != new.wanted.get(node)}
    return found.intersection(new.nodes())


Frozen = Mapping[str, InvalidDataset | None]


class IncrementalNodes:
    """The NodeCaches to write: new ones for nodes with a sidecar, and those whose spec differs."""

    def __init__(self, states: NodeStateCache, entries: IncrementalEntries) -> None:
        self._states: Final = states
        self._entries: Final = entries
        self._writes: Final[dict[str, NodeCacheWrite]] = {}
        self._left_out: Final[dict[str, tuple[str, ...]]] = {}
        self._frozen: Frozen = {}
        self._step = 0

    def update(self, view: ClusterView, changed: Iterable[str], frozen: Frozen) -> NodePlans:
        """Update changed nodes, and nodes that hold a Dataset which became frozen or is no longer frozen."""
        stale = set(changed)
        for uid in {*frozen, *self._frozen}:
            if uid not in frozen or uid not in self._frozen or frozen[uid] != self._frozen[uid]:
                stale.update(self._states.of_dataset(uid))
        self._frozen = frozen
        if (step := report_step(len(view.nodes))) != self._step:
            self._step = step
            stale.update(view.nodes)
        for node in stale:
            self._settle(view, node)
        left_out: dict[str, list[str]] = {}
        for node in sorted(self._left_out):
            for uid in self._left_out[node]:
                left_out.setdefault(uid, []).append(node)
        return NodePlans(tuple(self._writes[node] for node in sorted(self._writes)), left_out)

    def _settle(self, view: ClusterView, node: str) -> None:
        self._writes.pop(node, None)
        self._left_out.pop(node, None)
        if node not in view.nodes:
            return
        self._entries.share(node)
        wanted = self._entries.by_node.get(node, {})
        found = settle_node(view, node, [wanted[key] for key in sorted(wanted)], self._frozen)
        if found.write is not None:
            self._writes[node] = found.write
        if found.left_out:
            self._left_out[node] = found.left_out

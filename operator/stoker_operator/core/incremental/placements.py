"""Placements of Datasets, kept across passes. Only turns whose result may change are repeated.

Every Dataset takes its turn, in order, and finds on each node the room that earlier turns left. The answers and
promises of each turn are kept. A Dataset repeats its turn if it changed, or if a node would now answer differently. A
property test compares the result with a placement from scratch (tests/support/plain_placement.py).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final

from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.changed_keys import swap
from stoker_operator.core.classes.class_limits import NO_TERMS, asks_for_share, last_share
from stoker_operator.core.incremental.node_state_cache import Moved, NodeStateCache
from stoker_operator.core.placement.fill_order import FillOrders, Turn, charge_refused, pod_nodes, turn_of
from stoker_operator.core.placement.node_promises import (
    NOTHING,
    LastRoom,
    NodePromises,
    Question,
    TurnRoom,
    size_on_node,
)
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.placement.node_room import Selections
from stoker_operator.core.placement.placement_draft import NO_NODES, Draft, by_age_within
from stoker_operator.core.placement.quota import QuotaBook, QuotaShare, Tenant
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.failed_objects import FailedObjects
from stoker_operator.core.views.node_states import NodeState
from stoker_operator.core.views.usage import Use


@dataclass(frozen=True, slots=True)
class PlacementNews:
    """The cluster at one moment, and the changes since the last update."""

    view: ClusterView
    now: float
    uses: Mapping[str, tuple[Use, ...]]
    wanted: Mapping[str, frozenset[str]]
    datasets: Collection[str]  # keys of Datasets that changed, were added or deleted, or whose uses or requests changed
    nodes: Collection[str]  # nodes that changed, became lost, or gained or lost a NodeCache
    caches: Collection[str]  # nodes whose NodeCache changed
    moved: Moved


@dataclass(slots=True)
class _Kept:
    """A Dataset's turn and its result."""

    inputs: tuple[object, ...]
    turn: Turn
    draft: Draft
    seen: int  # the version of its selection
    nodes: frozenset[str]  # of its pods, with or without a NodeCache
    promised: frozenset[str] = frozenset()  # nodes of the turn's placement
    asked: Mapping[str, Question] = field(default_factory=dict)
    before: dict[str, Role] | None = None  # its roles before the end of the pass, if changed there
    dropped: Mapping[str, int] = field(default_factory=dict)  # bytes by node, for its namespace's quota


class IncrementalPlacements:
    """The placements of all Datasets. ``update`` refreshes them."""

    def __init__(self, states: NodeStateCache) -> None:
        self.placements: Final[dict[str, Placement]] = {}
        # Replicas by UID, for Datasets that do not follow the nodes. The NodeCaches may be written much later.
        self.chosen: Final[dict[str, frozenset[str]]] = {}
        self._states: Final = states
        self._book: Final = QuotaBook()
        self._positions: Final[dict[str, int]] = {}
        self._promises: Final = NodePromises(self._positions)
        self._selections: Final = Selections(ClusterView(), 0.0)
        self._kept: Final[dict[str, _Kept]] = {}
        self._keys: Final[dict[str, str]] = {}  # by UID
        self._at: Final[dict[str, set[str]]] = {}  # node -> keys of Datasets with pods there
        self._askers: Final[dict[str, set[str]]] = {}  # node -> Datasets that checked it
        self._lacking: Final[set[str]] = set()  # Datasets with too few replicas after their turn
        self._everywhere: Final[set[str]] = set()  # Datasets that checked all nodes
        self._limited: Final[set[str]] = set()  # Datasets of namespaces with a quota
        self._dropping: Final[set[str]] = set()  # Datasets that dropped data for the quota
        self._touched: set[str] = set()  # Datasets whose roles the end of the last pass changed
        self._retry: set[str] = set()  # failed decisions of the last pass
        self._left: Final[set[Tenant]] = set()  # tenants with a quota that lost a Dataset

    def update(self, news: PlacementNews, spoiled: FailedObjects, changed: set[str]) -> None:
        """Apply the changes. Add the keys of changed placements to ``changed``."""
        other = self._selections.update(news.view, news.nodes, news.now)
        shaken = {node for node in {*news.caches, *news.nodes} if self._set_base(news.view, node)}
        gone = {key for key in news.datasets if key not in news.view.datasets}
        dirty = self._find_dirty(news, shaken, self._kept if other else ()) - gone
        for key in gone:
            shaken |= self._forget(key)
        dirty |= self._of_tenants(news, dirty)
        stale = {key for key, one in self._kept.items() if one.seen != one.draft.selection.version} if other else ()
        self._draw_up(news, dirty, shaken, spoiled)
        asked_again = self._take_turns(news, dirty, shaken, spoiled)
        finished = self._finish(asked_again, spoiled)
        self._retry = {key for key in spoiled if key in news.view.datasets}
        for key in self._retry:
            self._forget(key)
        self._publish({*asked_again, *stale, *finished, *self._retry, *gone}, changed)
        if dirty or gone:
            self._selections.keep_only([one.draft.selection for one in self._kept.values()])

    def _set_base(self, view: ClusterView, node: str) -> bool:
        cache = view.node_caches.get(node)
        return self._promises.set_base(node, None if cache is None else cache.status.available_bytes)

    # Find turns to repeat

    def _find_dirty(self, news: PlacementNews, shaken: set[str], elsewhere: Iterable[str]) -> set[str]:
        """Return the keys. ``elsewhere``: Datasets to check for changes of other nodes."""
        datasets = news.view.datasets
        dirty = {*self._retry, *self._everywhere}
        dirty.update(key for key in news.datasets if key in datasets and self._is_other(datasets[key], news))
        for node in () if dirty.issuperset(datasets) else news.nodes:  # at a start, all are dirty
            dirty |= self._at.get(node, set())
            dirty.update(self._keys[uid] for uid in self._states.on_node(node) if uid in self._keys)
        for uid, rows in news.moved.items():
            key = self._keys.get(uid)
            if key is not None and key not in dirty and not self._adjust(key, rows, news.nodes, shaken):
                dirty.add(key)
        dirty.update(key for key in elsewhere if self._kept[key].draft.is_outdated(self._kept[key].seen))
        return dirty

    def _is_other(self, dataset: Dataset, news: PlacementNews) -> bool:
        known = self._kept.get(dataset.key)
        return known is None or known.inputs != self._inputs(dataset, news)

    def _inputs(self, dataset: Dataset, news: PlacementNews) -> tuple[object, ...]:
        meta, key = dataset.metadata, dataset.key
        terms = news.view.terms.get(key, NO_TERMS)
        limited = terms.namespace_quota is not None or terms.node_quota is not None
        born = (meta.uid, meta.creation_timestamp, bool(meta.deletion_timestamp))
        size = dataset.status if limited else size_on_node(dataset)
        share = last_share(dataset) if asks_for_share(dataset.spec.cache) else None
        return born, dataset.spec.cache, dataset.spec.warm, size, share, terms, _nodes_of_pods(news, key)

    def _adjust(self, key: str, rows: Mapping[str, NodeState | None], nodes: Collection[str], shaken: set[str]) -> bool:
        """Update rows with changed amounts only. Return False if the whole turn must be repeated."""
        one = self._kept[key]
        draft, held = one.draft, self._states.of_dataset(one.draft.dataset.metadata.uid)
        if draft.share.limited or held is not draft.held:
            return False
        roles = draft.roles if one.before is None else one.before
        for node, before in rows.items():
            after, role = held.get(node), roles.get(node)
            if before is None or after is None or node in nodes:
                return False
            if draft.standing(node, before, role) != draft.standing(node, after, role):
                return False
        for node in rows:
            if self._promises.set(node, key, draft.promise(held[node], roles.get(node))):
                shaken.add(node)
        return True

    def _of_tenants(self, news: PlacementNews, dirty: set[str]) -> set[str]:
        """Return all Datasets of tenants whose quota may be divided differently. Reset that quota."""
        tenants = {_tenant(news.view, key) for key in dirty} | self._left
        tenants |= {self._kept[key].draft.share.tenant for key in dirty if key in self._kept}
        refused = news.view.invalid_datasets.values()
        tenants |= {Tenant(one.status.class_name, one.metadata.namespace) for one in refused}
        limited = {key: self._kept[key] for key in self._limited}
        asking = (one for key, one in limited.items() if one.asked or key in self._lacking)
        tenants |= {one.draft.share.tenant for one in asking}
        self._left.clear()
        for tenant in tenants:
            self._book.forget(tenant)
        charge_refused(news.view, self._states, self._book)
        return {key for key, one in limited.items() if one.draft.share.tenant in tenants}

    # Turns

    def _draw_up(self, news: PlacementNews, dirty: set[str], shaken: set[str], spoiled: FailedObjects) -> None:
        """Prepare the turns and sort them."""
        moved = len(self._positions) != len(self._kept)
        limited = False
        for key in dirty:
            old = self._kept.get(key)
            new = spoiled.attempt(key, partial(self._renew, key, news))
            if new is None:
                shaken |= self._forget(key)
                moved = True
                continue
            moved = moved or old is None or old.turn != new.turn or old.draft.share.limited != new.draft.share.limited
            limited = limited or new.draft.share.limited
        if moved or limited:
            shaken.update(node for key in dirty if key in self._kept for node in self._kept[key].promised)
            self._put_in_order()

    def _put_in_order(self) -> None:
        drafts = [one.draft for _, one in sorted(self._kept.items(), key=lambda pair: pair[1].turn)]
        ordered = [draft.dataset.key for draft in by_age_within(drafts)]
        self._positions.clear()
        self._positions.update((key, position) for position, key in enumerate(ordered))

    def _renew(self, key: str, news: PlacementNews) -> _Kept:
        """Reset a Dataset to the state before its turn. Its promises stay until the turn."""
        dataset = news.view.datasets[key]
        meta, terms = dataset.metadata, news.view.terms.get(key, NO_TERMS)
        inputs = self._inputs(dataset, news)
        pods = pod_nodes(news.view, news.uses.get(key, ()), news.wanted.get(key, frozenset()))
        selection, share = (
            self._selections.of(dataset),
            QuotaShare(self._book, _tenant(news.view, key), meta.name, terms),
        )
        draft = Draft(dataset, self._states.of_dataset(meta.uid), pods, selection, share, news.now)
        nodes = _nodes_of_pods(news, key)
        new = _Kept(inputs, turn_of(dataset, bool(pods)), draft, selection.version, nodes)
        old = self._kept.get(key)
        if old is not None:
            new.promised, new.asked = old.promised, old.asked
            self._forget_uid(old, meta.uid)
        swap(self._at, old.nodes if old is not None else frozenset(), nodes, key)
        self._keys[meta.uid] = key
        self._kept[key] = new
        self._everywhere.discard(key)
        self._dropping.discard(key)
        _have(self._limited, key, there=share.limited)
        return new

    def _take_turns(self, news: PlacementNews, dirty: set[str], shaken: set[str], spoiled: FailedObjects) -> set[str]:
        """Repeat the turns of ``dirty`` and of Datasets with changed answers. Return all keys."""
        turns = {key for key in dirty if key in self._kept}
        turns |= {asker for node in shaken for asker in self._told_otherwise(node)} - turns
        heap = [(self._positions[key], key) for key in turns]
        heapify(heap)
        while heap:
            position, key = heappop(heap)
            if key not in dirty and spoiled.attempt(key, partial(self._renew, key, news)) is None:
                continue
            for node in self._take_turn(key, position, spoiled):
                for asker in self._told_otherwise(node):
                    if asker not in turns and self._positions[asker] > position:
                        turns.add(asker)
                        heappush(heap, (self._positions[asker], asker))
        return turns

    def _take_turn(self, key: str, position: int, spoiled: FailedObjects) -> list[str]:
        """Let a Dataset take its turn. Return the nodes with a changed promise."""
        one, room = self._kept[key], TurnRoom(self._promises, position)
        if not spoiled.succeeds(key, partial(one.draft.keep, room)):
            room = TurnRoom(self._promises, position)
            one.draft.roles.clear()
        swap(self._askers, frozenset(one.asked), frozenset(room.asked), key)
        promised = frozenset(one.draft.roles)
        nodes = list[str]()
        for node in one.promised | promised:
            if self._promises.set(node, key, room.made.get(node, NOTHING)):
                nodes.append(node)
        one.promised, one.asked = promised, room.asked
        _have(self._everywhere, key, there=room.asked_everywhere)
        _have(self._lacking, key, there=one.draft.missing() > 0)
        return nodes

    def _told_otherwise(self, node: str) -> list[str]:
        """Return the Datasets that checked a node and would now get a different answer."""
        found = []
        for key in self._askers.get(node, ()):
            question = self._kept[key].asked[node]
            if self._promises.fits_before(node, self._positions[key], question.need) != question.answer:
                found.append(key)
        return found

    # The end of a pass: new replicas and evictions

    def _finish(self, turns: Collection[str], spoiled: FailedObjects) -> set[str]:
        """Add replicas and drop data after all turns. Return the keys that changed now or in the last pass."""
        finished = self._touched
        for key in finished:
            one = self._kept.get(key)
            if one is not None and one.before is not None:
                one.draft.roles, one.before = one.before, None
        self._touched = set()
        room = LastRoom(self._promises)
        orders = FillOrders(room)
        for key in sorted(self._lacking, key=self._positions.__getitem__):
            self._fill(key, room, orders, spoiled)
        for key in sorted(turns, key=self._positions.__getitem__):
            if self._kept[key].draft.share.limited:
                self._count(key, spoiled)
        for key in self._dropping:
            for node, freed in self._kept[key].dropped.items():
                room.drop(node, freed)
        for node in {*self._promises.short, *room.taken}:
            self._drop(node, room)
        return finished | self._touched

    def _fill(self, key: str, room: LastRoom, orders: FillOrders, spoiled: FailedObjects) -> None:
        one = self._kept[key]
        if not one.draft.share.limited:
            self._remember(key)
        chosen = self.chosen.get(one.draft.dataset.metadata.uid, NO_NODES)
        spoiled.attempt(key, partial(one.draft.fill, room, chosen, orders))

    def _count(self, key: str, spoiled: FailedObjects) -> None:
        draft = self._kept[key].draft
        idle = draft.nodes_with(Role.IDLE)
        spoiled.attempt(key, draft.count_idle)
        given_up = [node for node in idle if node not in draft.roles]
        self._kept[key].dropped = {node: draft.data.evictable(draft.held[node]) for node in given_up}
        _have(self._dropping, key, there=bool(given_up))

    def _drop(self, node: str, room: LastRoom) -> None:
        """Drop idle data on a node with more promises than room, last turn first."""
        if not self._promises.idle(node):
            return  # for example one of hundreds of nodes that have not reported their disk
        for key in self._promises.idle_last_first(node) if room.after_all(node) < 0 else ():
            draft = self._kept[key].draft
            if room.after_all(node) < 0 and draft.roles.get(node) is Role.IDLE:
                self._remember(key)
                room.drop(node, draft.data.evictable(draft.held[node]))
                del draft.roles[node]

    def _remember(self, key: str) -> None:
        one = self._kept[key]
        self._touched.add(key)
        if one.before is None:
            one.before, one.draft.roles = one.draft.roles, dict(one.draft.roles)

    def _publish(self, keys: Iterable[str], changed: set[str]) -> None:
        for key in keys:
            one = self._kept.get(key)
            if one is None:
                if self.placements.pop(key, None) is not None:
                    changed.add(key)
                continue
            one.seen = one.draft.selection.version
            placement = one.draft.result()
            replicas = () if one.draft.follows_nodes else one.draft.nodes_with(Role.REPLICA)
            self.chosen[one.draft.dataset.metadata.uid] = frozenset(replicas)
            if placement != self.placements.get(key):
                self.placements[key] = placement
                changed.add(key)

    def _forget_uid(self, one: _Kept, but: str = "") -> None:
        """Remove the entries by UID, unless the UID is ``but``."""
        uid = one.draft.dataset.metadata.uid
        if uid != but:
            self._keys.pop(uid, None)
            self.chosen.pop(uid, None)

    def _forget(self, key: str) -> set[str]:
        """Remove a Dataset. Return the nodes with promises to it."""
        one = self._kept.pop(key, None)
        if one is None:
            return set()
        for node in one.promised:
            self._promises.set(node, key, NOTHING)
        swap(self._askers, frozenset(one.asked), frozenset(), key)
        swap(self._at, one.nodes, frozenset(), key)
        self._forget_uid(one)
        for some in (self._lacking, self._touched, self._everywhere, self._limited, self._dropping):
            some.discard(key)
        self._positions.pop(key, None)
        if one.draft.share.limited:
            self._left.add(one.draft.share.tenant)
        return set(one.promised)


def _have(keys: set[str], key: str, *, there: bool) -> None:
    if there:
        keys.add(key)
    else:
        keys.discard(key)


def _nodes_of_pods(news: PlacementNews, key: str) -> frozenset[str]:
    """Return the nodes where pods use a Dataset or wait for it, with or without a NodeCache."""
    used = (use.node for use in news.uses.get(key, ()) if use.node)
    return news.wanted.get(key, frozenset()).union(used)


def _tenant(view: ClusterView, key: str) -> Tenant:
    return Tenant(view.terms.get(key, NO_TERMS).name, view.datasets[key].metadata.namespace)

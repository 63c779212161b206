"""Placement as one pass over all Datasets: the model of ``IncrementalPlacements``."""

from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.classes.class_limits import NO_TERMS
from stoker_operator.core.placement.fill_order import FillOrders, Turn, charge_refused, pod_nodes, turn_of
from stoker_operator.core.placement.node_roles import Placement, Role
from stoker_operator.core.placement.node_room import FillRoom, KeepRoom, Selections
from stoker_operator.core.placement.placement_draft import NO_NODES, Draft, by_age_within
from stoker_operator.core.placement.quota import QuotaBook, QuotaShare, Tenant
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.failed_objects import FailedObjects
from stoker_operator.core.views.node_states import NodeStates
from stoker_operator.core.views.usage import Use

Chosen = Mapping[str, frozenset[str]]  # nodes by UID of a Dataset


def place_plainly(
    view: ClusterView,
    states: NodeStates,
    uses: Mapping[str, tuple[Use, ...]],
    wanted: Mapping[str, frozenset[str]],
    now: float,
    spoiled: FailedObjects,
    chosen: Chosen = MappingProxyType({}),
) -> Mapping[str, Placement]:
    """Place all Datasets, by key. Skip a Dataset that fails and record it in ``spoiled``.

    ``chosen`` has the replicas of earlier decisions, which NodeCaches may not show so far.
    """
    selections, book = Selections(view, now), QuotaBook()
    charge_refused(view, states, book)
    turns: list[tuple[Turn, Draft]] = []

    def draft(dataset: Dataset) -> None:
        pods = pod_nodes(view, uses.get(dataset.key, ()), wanted.get(dataset.key, frozenset()))
        held, selection = states.of_dataset(dataset.metadata.uid), selections.of(dataset)
        meta, terms = dataset.metadata, view.terms.get(dataset.key, NO_TERMS)
        share = QuotaShare(book, Tenant(terms.name, meta.namespace), meta.name, terms)
        turns.append((turn_of(dataset, bool(pods)), _PlainDraft(dataset, held, pods, selection, share, now)))

    for key, dataset in view.datasets.items():
        spoiled.attempt(key, partial(draft, dataset))
    drafts = by_age_within([one for _, one in sorted(turns, key=lambda pair: pair[0])])
    ledger = _Ledger(view)
    steps = (_keep, partial(_fill, chosen), _count_idle, _drop_idle)
    for step in steps:
        # The last Dataset in line gives up its idle data first.
        for one in reversed(drafts) if step is _drop_idle else drafts:
            if one.dataset.key not in spoiled:
                spoiled.attempt(one.dataset.key, partial(step, one, ledger))
    return {one.dataset.key: one.result() for one in drafts if one.dataset.key not in spoiled}


class _PlainDraft(Draft):
    """A draft that sorts all nodes instead of using a shared order."""

    def _first_fresh(self, missing: int, ledger: FillRoom, orders: FillOrders) -> list[str]:
        return sorted(self._fresh - self.roles.keys(), key=partial(self._fresh_rank, ledger=ledger))


def _keep(draft: Draft, ledger: KeepRoom) -> None:
    draft.keep(ledger)


def _fill(chosen: Chosen, draft: Draft, ledger: FillRoom) -> None:
    draft.fill(ledger, chosen.get(draft.dataset.metadata.uid, NO_NODES), FillOrders(ledger))


def _count_idle(draft: Draft, ledger: "_Ledger") -> None:
    idle = draft.nodes_with(Role.IDLE)
    draft.count_idle()
    for name in idle:
        if name not in draft.roles:
            ledger.drop(name, draft.data.evictable(draft.held[name]))


def _drop_idle(draft: Draft, ledger: "_Ledger") -> None:
    """Give up idle data on nodes that promised more than their capacity."""
    for name in draft.nodes_with(Role.IDLE):
        freed = draft.data.evictable(draft.held[name])
        if freed and ledger.free(name) < 0:
            ledger.drop(name, freed)
            del draft.roles[name]


class _Ledger:
    """Free bytes of each node, which one pass over all Datasets assigns."""

    def __init__(self, view: ClusterView) -> None:
        self._room: Final = {name: cache.status.available_bytes for name, cache in view.node_caches.items()}
        self._idle: Final[Counter[str]] = Counter()  # bytes freed by dropping idle Datasets
        self._given: Final[Counter[str]] = Counter()  # Datasets assigned to each node

    def free(self, node: str) -> int:
        return self._room.get(node, 0)

    def given(self, node: str) -> int:
        return self._given[node]

    def fits(self, node: str, need: int) -> bool:
        return self._room.get(node, 0) + self._idle[node] >= need

    def fits_elsewhere(self, nodes: Collection[str], node: str, need: int) -> bool:
        return any(self.fits(other, need) for other in nodes if other != node)

    def charge(self, node: str, need: int) -> None:
        self._room[node] = self._room.get(node, 0) - need
        self._given[node] += 1

    def count_idle(self, node: str, freed: int) -> None:
        self._idle[node] += freed

    def drop(self, node: str, freed: int) -> None:
        self._room[node] = self._room.get(node, 0) + freed

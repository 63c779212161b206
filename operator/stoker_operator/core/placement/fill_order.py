"""The order of Datasets' turns, and the order in which nodes get new replicas in them."""

from collections.abc import Container
from heapq import heapify, heappop, heappush, nsmallest
from typing import Final, NamedTuple

from stoker_api.datasets.dataset import Dataset
from stoker_api.times import parse_time
from stoker_operator.core.placement.node_room import FillRoom, Selection
from stoker_operator.core.placement.quota import QuotaBook, Tenant
from stoker_operator.core.views.cluster import ClusterView
from stoker_operator.core.views.node_states import NodeStates
from stoker_operator.core.views.usage import Use


class FreshRank(NamedTuple):
    """The rank of a node: untainted nodes first, then the fewest Datasets, then the most free bytes."""

    tainted: bool
    given: int
    taken: int  # negative free bytes
    name: str


def fresh_rank(selection: Selection, room: FillRoom, name: str) -> FreshRank:
    """Return the rank of a node with room."""
    tainted = selection.rule.comes_late(selection.everywhere[name])
    return FreshRank(tainted, room.given(name), -room.free(name), name)


class FillOrder:
    """The nodes of a selection that may get a new Dataset, as a heap.

    During a pass, ranks only get worse. So a node's rank is updated when the node reaches the top, and a Dataset costs
    only what it takes instead of a scan of all nodes.
    """

    def __init__(self, selection: Selection, room: FillRoom) -> None:
        self._selection: Final = selection
        self._room: Final = room
        self._ranks: list[FreshRank] | None = None  # a heap, built on the first call

    def first(self, most: int, need: int, but: Container[str]) -> list[str]:
        """Return at most ``most`` nodes that are not in ``but``. Nodes with room for ``need`` bytes come first."""
        if self._ranks is None:
            self._ranks = [fresh_rank(self._selection, self._room, name) for name in self._selection.fresh]
            heapify(self._ranks)
        ranks, fitting, full, seen = self._ranks, list[str](), list[FreshRank](), list[FreshRank]()
        while ranks and len(fitting) < most:
            rank = heappop(ranks)
            now = fresh_rank(self._selection, self._room, rank.name)
            if now != rank:
                heappush(ranks, now)
                continue
            seen.append(rank)
            if rank.name in but:
                continue
            if self._room.fits(rank.name, need):
                fitting.append(rank.name)
            else:
                full.append(rank)
        for rank in seen:
            heappush(ranks, rank)
        # For a node without room, the number of its Datasets does not matter.
        rest = nsmallest(most - len(fitting), full, key=lambda rank: (rank.tainted, rank.taken, rank.name))
        return fitting + [rank.name for rank in rest]


class FillOrders:
    """The orders of all selections. They are valid while ``room`` only shrinks."""

    def __init__(self, room: FillRoom) -> None:
        self._room: Final = room
        self._orders: Final[dict[int, tuple[Selection, FillOrder]]] = {}  # by the identity of the selection

    def of(self, selection: Selection) -> FillOrder:
        """Return the order of a selection's nodes."""
        if id(selection) not in self._orders:
            self._orders[id(selection)] = (selection, FillOrder(selection, self._room))
        return self._orders[id(selection)][1]


Turn = tuple[bool, int, float, str]


def charge_refused(view: ClusterView, states: NodeStates, book: QuotaBook) -> None:
    """Charge the data of rejected Datasets to their last class."""
    for one in view.invalid_datasets.values():
        tenant = Tenant(one.status.class_name, one.metadata.namespace)
        for node, state in states.of_dataset(one.metadata.uid).items():
            book.charge(tenant, one.metadata.name, node, state.sure_bytes)


def pod_nodes(view: ClusterView, uses: tuple[Use, ...], wanted: frozenset[str]) -> frozenset[str]:
    """Return the nodes with a NodeCache where pods use the Dataset or wait for it."""
    found = {use.node for use in uses if use.node} | wanted
    return frozenset(name for name in found if name in view.nodes and name in view.node_caches)


def turn_of(dataset: Dataset, used: bool) -> Turn:
    """Return the sort key of turns: used Datasets first, then by priority and age."""
    return (not used, -dataset.spec.warm.priority, parse_time(dataset.metadata.creation_timestamp), dataset.key)

"""The order in which nodes are given new replicas, kept for all Datasets of a pass that lack some."""

from collections.abc import Container
from heapq import heapify, heappop, heappush, nsmallest
from typing import Final, NamedTuple

from stoker_operator.core.node_room import FillRoom, Selection


class FreshRank(NamedTuple):
    """What decides about the order of nodes with room: tainted ones late, then the emptiest, then the freest."""

    tainted: bool
    given: int
    taken: int  # less than nothing: bytes that are free
    name: str


def fresh_rank(selection: Selection, room: FillRoom, name: str) -> FreshRank:
    """Return the rank of a node among those that have room."""
    tainted = selection.rule.comes_late(selection.everywhere[name])
    return FreshRank(tainted, room.given(name), -room.free(name), name)


class FillOrder:
    """The nodes of a selection that may be given something new. What is taken meanwhile only moves them back.

    A node's rank is looked at again when it comes to the front, so that a Dataset costs what it takes, and not a look
    at all nodes.
    """

    def __init__(self, selection: Selection, room: FillRoom) -> None:
        self._selection: Final = selection
        self._room: Final = room
        self._ranks: Final = [fresh_rank(selection, room, name) for name in selection.fresh]
        heapify(self._ranks)

    def first(self, count: int, need: int, but: Container[str]) -> list[str]:
        """Return the first nodes that are not in ``but``: those with room for ``need`` bytes before all others."""
        fitting, full, seen = list[str](), list[FreshRank](), list[FreshRank]()
        while self._ranks and len(fitting) < count:
            rank = self._next()
            seen.append(rank)
            if rank.name in but:
                continue
            if self._room.fits(rank.name, need):
                fitting.append(rank.name)
            else:
                full.append(rank)
        for rank in seen:
            heappush(self._ranks, rank)
        # How many a node without room was given does not matter.
        rest = nsmallest(count - len(fitting), full, key=lambda rank: (rank.tainted, rank.taken, rank.name))
        return fitting + [rank.name for rank in rest]

    def _next(self) -> FreshRank:
        while True:
            rank = heappop(self._ranks)
            now = fresh_rank(self._selection, self._room, rank.name)
            if now == rank:
                return rank
            heappush(self._ranks, now)


class FillOrders:
    """The orders of all selections, for as long as nothing is given back to ``room``."""

    def __init__(self, room: FillRoom) -> None:
        self._room: Final = room
        self._orders: Final[dict[int, tuple[Selection, FillOrder]]] = {}  # by what the selection is

    def of(self, selection: Selection) -> FillOrder:
        """Return the order of a selection's nodes."""
        if id(selection) not in self._orders:
            self._orders[id(selection)] = (selection, FillOrder(selection, self._room))
        return self._orders[id(selection)][1]

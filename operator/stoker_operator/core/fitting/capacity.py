"""Free capacity of nodes after bound pods and bookings, and sets of nodes with room for pods of one size."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from stoker_operator.core.fitting.node_bits import NodeSets, SetChanges
from stoker_operator.core.views.resources import Resources

_NOTHING = Resources()


class FreeCapacity:
    """The free capacity of each node. It follows nodes and bound pods. ``take`` and ``rebook`` book released pods."""

    def __init__(self) -> None:
        self._allocatable: dict[str, Resources] = {}
        self._bound: dict[str, Resources] = {}  # of pods; a node may appear after its pods
        self._left: dict[str, Resources] = {}
        self._booked: dict[str, Resources] = {}
        self._free: dict[str, Resources] = {}

    def put_node(self, node: str, allocatable: Resources | None) -> None:
        """Set the allocatable resources of a node. None: the node is deleted."""
        if allocatable is None:
            for known in (self._allocatable, self._left, self._free):
                known.pop(node, None)
            return
        self._allocatable[node] = allocatable
        self._settle(node)

    def bind(self, node: str, requests: Resources) -> None:
        """Count a pod that is bound to a node."""
        self._bound[node] = self._bound.get(node, _NOTHING).plus(requests)
        self._settle(node)

    def unbind(self, node: str, requests: Resources) -> None:
        """Stop counting a bound pod."""
        left = self._bound[node].minus(requests)
        if left.is_nothing:
            del self._bound[node]  # the node may be deleted
        else:
            self._bound[node] = left
        self._settle(node)

    def could_fit(self, requests: Resources, node: str) -> bool:
        """Return True if the node has room for a pod when empty."""
        return node in self._allocatable and self._allocatable[node].covers(requests)

    def fits(self, requests: Resources, node: str) -> bool:
        """Return True if the node has room for a pod now."""
        return node in self._free and self._free[node].covers(requests)

    def free(self, node: str) -> Resources | None:
        """Return the free resources of a node now, or None if it does not exist."""
        return self._free.get(node)

    @property
    def booked(self) -> Collection[str]:
        """Nodes with bookings."""
        return self._booked.keys()

    def fits_unbooked(self, requests: Resources, node: str) -> bool:
        """Return True if the node has room when only bound pods count."""
        return node in self._left and self._left[node].covers(requests)

    def take(self, requests: Resources, node: str) -> None:
        """Book a pod on a node."""
        self._booked[node] = self._booked.get(node, _NOTHING).plus(requests)
        self._free[node] = self._free[node].minus(requests)

    def give_back(self, requests: Resources, node: str) -> None:
        """Undo a ``take``."""
        self._booked[node] = self._booked[node].minus(requests)
        self._free[node] = self._free[node].plus(requests)

    def rebook(self, bookings: Iterable[tuple[Resources, Sequence[str]]]) -> set[str]:
        """Replace all bookings. Book each of these on the first of its nodes with room, if any.

        Return the nodes whose free capacity may have changed.
        """
        free: dict[str, Resources] = {}
        booked: dict[str, Resources] = {}
        for requests, nodes in bookings:
            for node in nodes:
                left = free.get(node) or self._left.get(node)
                if left is not None and left.covers(requests):
                    free[node] = left.minus(requests)
                    booked[node] = booked.get(node, _NOTHING).plus(requests)
                    break
        touched = self._booked.keys() | booked.keys()
        self._booked = booked
        for node in touched:
            self._settle(node)
        return touched

    def _settle(self, node: str) -> None:
        if node in self._allocatable:
            self._left[node] = self._allocatable[node].minus(self._bound.get(node, _NOTHING))
            self._free[node] = self._left[node].minus(self._booked.get(node, _NOTHING))


class PodRoom(NodeSets):
    """Nodes with room for a pod with ``requests``.

    ``free``: nodes with room now. ``unbooked``: nodes with room if bookings do not count. ``empty``: nodes with room if
    no pod counts.
    """

    SETS = ("free", "unbooked", "empty")
    free: int
    unbooked: int
    empty: int

    def __init__(self, changes: SetChanges, requests: Resources) -> None:
        super().__init__(changes)
        self.requests: Final = requests

    def put(self, at: int, node: str, capacity: FreeCapacity) -> None:
        """Update a node."""
        self.mark("empty", at, capacity.could_fit(self.requests, node))
        self.mark("unbooked", at, capacity.fits_unbooked(self.requests, node))
        self.mark_free(at, node, capacity)

    def note_more(self, at: int) -> None:
        """Record that a node with room for one pod has more room now."""
        if self.free >> at & 1:
            self.grown = self._changes.tick

    def mark_free(self, at: int, node: str, capacity: FreeCapacity) -> None:
        """Update the free room of a node."""
        self.mark("free", at, capacity.fits(self.requests, node))

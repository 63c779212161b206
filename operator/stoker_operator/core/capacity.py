"""Free capacity of nodes: what bound pods leave, and what is left of that by pods on their way there."""

from collections.abc import Collection, Iterable, Sequence

from stoker_operator.core.resources import Resources

_NOTHING = Resources()


class FreeCapacity:
    """What is left on each node. It follows nodes and bound pods; ``take`` and ``rebook`` book pods on their way."""

    def __init__(self) -> None:
        self._allocatable: dict[str, Resources] = {}
        self._bound: dict[str, Resources] = {}  # of pods; a node may be heard of after they are
        self._left: dict[str, Resources] = {}
        self._booked: dict[str, Resources] = {}
        self._free: dict[str, Resources] = {}

    def put_node(self, node: str, allocatable: Resources | None) -> None:
        """Take over what a node has for pods; None: there is no such node any more."""
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
        """Count it no more."""
        left = self._bound[node].minus(requests)
        if left.is_nothing:
            del self._bound[node]  # the node itself may be gone for good
        else:
            self._bound[node] = left
        self._settle(node)

    def could_fit(self, requests: Resources, node: str) -> bool:
        """Tell whether the node has room for a pod when it is empty."""
        return node in self._allocatable and self._allocatable[node].covers(requests)

    def fits(self, requests: Resources, node: str) -> bool:
        """Tell whether the node has room for a pod now."""
        return node in self._free and self._free[node].covers(requests)

    def free(self, node: str) -> Resources | None:
        """Return what is free on a node now; None when there is no such node."""
        return self._free.get(node)

    @property
    def booked(self) -> Collection[str]:
        """Nodes on which something is booked."""
        return self._booked.keys()

    def fits_unbooked(self, requests: Resources, node: str) -> bool:
        """Tell whether the node has room when only pods that are already bound to it count."""
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
        """Forget what was booked, and book each of these on the first of its nodes with room, if one has any.

        Gives the nodes whose free capacity may be another now.
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

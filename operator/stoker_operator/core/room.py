"""Nodes with room for pods of one size, as sets that follow the free capacity."""

from typing import Final

from stoker_operator.core.capacity import FreeCapacity
from stoker_operator.core.node_bits import NodeSets, SetChanges
from stoker_operator.core.resources import Resources


class PodRoom(NodeSets):
    """Nodes with room for a pod that asks for ``requests``.

    ``free``: those that have it now; ``unbooked``: when pods that are on their way do not count; ``empty``: when no
    pod does.
    """

    SETS = ("free", "unbooked", "empty")
    free: int
    unbooked: int
    empty: int

    def __init__(self, changes: SetChanges, requests: Resources) -> None:
        super().__init__(changes)
        self.requests: Final = requests

    def put(self, at: int, node: str, capacity: FreeCapacity) -> None:
        """Take over what there is on a node."""
        self.mark("empty", at, capacity.could_fit(self.requests, node))
        self.mark("unbooked", at, capacity.fits_unbooked(self.requests, node))
        self.mark_free(at, node, capacity)

    def note_more(self, at: int) -> None:
        """Note that there is more room than before, on a node that may have had room for one pod already."""
        if self.free >> at & 1:
            self.grown = self._changes.tick

    def mark_free(self, at: int, node: str, capacity: FreeCapacity) -> None:
        """Take over what is free on a node."""
        self.mark("free", at, capacity.fits(self.requests, node))

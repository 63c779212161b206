"""WeightedTurns in proportion to weights: start-time fair queueing (Goyal, Vin and Cheng 1996)."""

from collections.abc import Iterable
from typing import NamedTuple


class TurnClass(NamedTuple):
    """What takes turns with others of its kind. ``key``: tells those apart that have the same weight."""

    weight: int
    key: float = 0.0


class WeightedTurns:
    """Says who is next. Who wanted no turns for a while has no claim to those that it left out."""

    def __init__(self) -> None:
        self._starts: dict[TurnClass, float] = {}
        self._now = 0.0  # virtual time: where the turn that was taken last began

    def in_order(self, classes: Iterable[TurnClass]) -> list[TurnClass]:
        """Return the classes that want a turn, who is next first; the heaviest of equals."""
        return sorted(classes, key=lambda one: (self._start(one), -one.weight, one.key))

    def take(self, one: TurnClass, cost: float = 1.0) -> None:
        """Note that a class took a turn. ``cost``: how many turns it counts for."""
        self._now = self._start(one)
        self._starts[one] = self._now + cost / one.weight

    def _start(self, one: TurnClass) -> float:
        return max(self._starts.get(one, 0.0), self._now)

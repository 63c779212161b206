"""The order of turns in a pass: the oldest group that a change may affect comes first."""

from heapq import heapify, heappop, heappush

from stoker_operator.core.gating.gate_index import GateIndex
from stoker_operator.core.gating.gate_pods import GatePods
from stoker_operator.core.gating.pod_class import Order, PodClass


class TurnOrder:
    """The groups of one pass, oldest first.

    Of the pods that wait at one place, only the oldest needs a turn, and the next one after it (``had_turn``). Room
    only shrinks in a pass, so if the oldest pod stays, the rest stay too.
    """

    def __init__(self, index: GateIndex, pods: GatePods, now: float) -> None:
        self._index = index
        self._pods = pods
        self._done: set[str] = set()
        self._heap: list[tuple[Order, str]] = []
        self._places: dict[str, PodClass] = {}  # places of pods whose only reason for a turn is to be the oldest there
        self._last: PodClass | None = None
        certain = {*pods.take_stale(), *pods.take_due(now), *self._told_otherwise(), *self._gangs_with_more_room()}
        for key in certain:
            pods.unpark(key)
        self._heap = [(pods.order(key), key) for key in certain]
        heapify(self._heap)
        for place in index.places.values():
            self._push_oldest(place)

    def next(self) -> str | None:
        """Return the key of the next group, or None if all had a turn."""
        while self._heap:
            _, key = heappop(self._heap)
            self._last = self._places.pop(key, None)
            if key in self._done or (self._last is not None and not self._last.open):
                continue
            self._done.add(key)
            if self._last is not None:
                self._pods.unpark(key)
            return key
        return None

    def had_turn(self) -> None:
        """Queue the next pod of the place that just had a turn."""
        if self._last is not None:
            self._push_oldest(self._last)

    def _push_oldest(self, place: PodClass) -> None:
        if not place.waiting or not place.open:
            return
        order = place.waiting[0]
        key = f"{order[1]}/alone"
        if key not in self._done:
            self._places[key] = place
            heappush(self._heap, (order, key))

    def _told_otherwise(self) -> set[str]:
        """Return the groups whose message no longer holds, by their places."""
        found = set[str]()
        for place in self._index.places.values():
            if place.told != (facts := place.facts()):
                place.told = facts
                found |= self._pods.waiting_groups(place)
        return found

    def _gangs_with_more_room(self) -> list[str]:
        return [key for key, tried in self._pods.gangs.items() if self._grown(key) > tried]

    def _grown(self, key: str) -> int:
        return max((part.grown for place in self._pods.places_of(key) for part in place.parts), default=0)

"""What gating knows of pods: whom they keep the room from, who is held, where, since which decision, and until when."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final

from stoker_operator.core.annotations import Refusal, parse_datasets
from stoker_operator.core.gate_index import GateIndex
from stoker_operator.core.held_groups import HeldGroups, group_key, order_of
from stoker_operator.core.places import AskingOrder, Order, Place
from stoker_operator.core.release_decisions import Hold, Release
from stoker_operator.core.resources import Resources
from stoker_operator.core.views import PodView

_MOST_OUTDATED = 100  # times that nobody waits for any more, beside as many as are waited for


@dataclass(frozen=True)
class Seat:
    """The place of a held pod, or why it has none; ``asks``: as what it is counted there."""

    place: Place | Exception
    asks: AskingOrder


class GatePods:
    """All pods, as gating looks at them. Groups are told apart by keys."""

    def __init__(self, index: GateIndex) -> None:
        self._index: Final = index
        self.groups: Final = HeldGroups()
        self._stale: Final[set[str]] = set()  # groups on which a change calls for a decision
        self.gangs: Final[dict[str, int]] = {}  # those that wait for warmth or room, with the tick of the last try
        self._pods: Final[dict[str, PodView]] = {}
        self._loose: Final[dict[str, PodView]] = {}  # released pods without a node, by UID
        self._named: Final[dict[str, Counter[str]]] = {}  # groups, by the keys of the Datasets that their pods name
        self._seats: Final[dict[str, Seat]] = {}
        self._held: Final[dict[str, tuple[str, ...]]] = {}  # pods of each group that was decided to stay
        self._holds: Final[dict[str, Hold]] = {}
        self._news: Final[dict[str, Hold]] = {}
        self._left: Final[list[PodView]] = []
        self._let_go: Final[set[str]] = set()  # pods that are to go, and of which nothing was told since
        self._due: Final[list[tuple[float, str]]] = []
        self._due_of: Final[dict[str, float]] = {}

    def put(self, key: str, pod: PodView | None) -> None:
        """Take over a pod, None when it is gone."""
        old = self._pods.pop(key, None)
        if pod is not None:
            self._pods[key] = pod
        self._count(old, pod)
        if old is not None:
            self._loose.pop(old.uid, None)
        if pod is not None and _is_loose(pod):
            self._loose[pod.uid] = pod
        self._name(old, -1)
        self._name(pod, 1)
        touched = self.groups.put(old, pod)
        # One that was let go and is told of as held was not: it has to be decided on anew, whatever else it says.
        if old is None or pod is None or key in self._let_go or not _is_same_wish(old, pod):
            self._stale.update(touched)
        self._let_go.discard(key)

    def dataset_changed(self, key: str) -> None:
        """Decide anew on all who name a Dataset."""
        self._stale.update(self._named.get(key, ()))

    def on_their_way(self, bookings: Mapping[str, Sequence[str]]) -> list[tuple[Resources, Sequence[str]]]:
        """Return what pods that have no node yet will take, and of which nodes."""
        return [(self._loose[uid].requests, nodes) for uid, nodes in bookings.items() if uid in self._loose]

    def seat(self, pod: PodView, place: Place | Exception, turn: Order) -> None:
        """Give a pod its place, or what kept it from having one; ``turn``: its group's."""
        asks = (bool(pod.other_gates), turn, order_of(pod))
        known = self._seats.get(pod.key)
        if known is not None and (known.place, known.asks) == (place, asks):
            return
        self.unseat(pod.key)
        self._seats[pod.key] = Seat(place, asks)
        if isinstance(place, Place):
            place.ask(asks)
            self._index.changes.any = True

    def unseat(self, key: str) -> None:
        """Take the place of a pod away: it goes, or nothing is known about what it wants."""
        seat = self._seats.pop(key, None)
        if seat is not None and isinstance(seat.place, Place):
            seat.place.stop_asking(seat.asks)
            self._index.changes.any = True

    def place(self, pod: PodView) -> Place:
        """Return the place of a pod. Raises what kept it from having one."""
        place = self._seats[pod.key].place
        if isinstance(place, Exception):
            raise place
        if place.nodes.error is not None:
            raise place.nodes.error
        return place

    def place_of(self, key: str) -> Place | None:
        """Return the place of the pod with this key, if it has one."""
        seat = self._seats.get(key)
        return seat.place if seat is not None and isinstance(seat.place, Place) else None

    def settle(self, key: str, decisions: Sequence[Hold | Release], now: float) -> list[Release]:
        """Write down what was decided on a group; gives those of its pods that go."""
        holds = [one for one in decisions if isinstance(one, Hold)]
        releases = [one for one in decisions if isinstance(one, Release)]
        staying = {hold.pod.key for hold in holds}
        gone = {release.pod.key for release in releases}
        self._let_go.update(gone)
        for pod in {*self._held.pop(key, ()), *gone} - staying:
            self._leave(pod, released=pod in gone)
        if holds:
            self._held[key] = tuple(staying)
        for hold in holds:
            self._tell(hold)
        self._set_due(key, holds, now)
        self._wait(key, [hold for hold in holds if hold.waits])
        return releases

    def news(self) -> tuple[tuple[Hold, ...], tuple[PodView, ...]]:
        """Return the holds that are new or other than before, and the pods that are held no more.

        Of pods that are only expected there is nobody to tell.
        """
        holds = tuple(hold for hold in self._news.values() if not hold.pod.expected)
        found = holds, tuple(pod for pod in self._left if not pod.expected)
        self._news.clear()
        self._left.clear()
        return found

    def unpark(self, key: str) -> None:
        """Take a group out of the queues of its places, before it is decided on."""
        self.gangs.pop(key, None)
        for pod in self._held.get(key, ()):
            if (place := self.place_of(pod)) is not None:
                place.gangs.discard(key)
                place.waiting.drop(order_of(self._holds[pod].pod))

    def order(self, key: str) -> Order:
        """Return whose turn a group's is; one that is gone waits for no other."""
        group = self.groups.get(key)
        return (0.0, "") if group is None else group.order

    def take_stale(self) -> list[str]:
        """Return the groups on which a change calls for a decision."""
        found = list(self._stale)
        self._stale.clear()
        return found

    def take_due(self, now: float) -> set[str]:
        """Return the groups for which it is time."""
        found = set[str]()
        while self._due and (self._due[0][0] <= now or self._is_outdated(*self._due[0])):
            due, key = heappop(self._due)
            if self._due_of.get(key) == due:
                found.add(key)
        return found

    def times(self, now: float) -> Iterable[float]:
        """Return when time alone calls for a decision the next time."""
        while self._due and self._is_outdated(*self._due[0]):
            heappop(self._due)
        return (self._due[0][0],) if self._due else ()

    def waiting_groups(self, place: Place) -> set[str]:
        """Return the groups that wait for warmth or room at a place."""
        return {*place.gangs, *(f"{pod}/alone" for _, pod in place.waiting)}

    def places_of(self, key: str) -> set[Place]:
        """Return the places of the pods of a group that stays."""
        return {place for pod in self._held.get(key, ()) if (place := self.place_of(pod)) is not None}

    def _count(self, old: PodView | None, new: PodView | None) -> None:
        before, after = _takes(old), _takes(new)
        if before == after:
            return
        if before is not None:
            self._index.unbind(*before)
        if after is not None:
            self._index.bind(*after)

    def _name(self, pod: PodView | None, count: int) -> None:
        if pod is None or not pod.gated:
            return
        for key in named_datasets(pod.datasets, pod.namespace):
            groups = self._named.setdefault(key, Counter())
            groups[group_key(pod)] += count
            if not groups[group_key(pod)]:
                del groups[group_key(pod)]
            if not groups:
                del self._named[key]

    def _tell(self, hold: Hold) -> None:
        known = self._holds.get(hold.pod.key)
        if known is None or (known.pod.uid, known.why) != (hold.pod.uid, hold.why) or hold.held_since is not None:
            self._news[hold.pod.key] = hold
        if known is not None and known.pod.uid != hold.pod.uid:
            self._left.append(known.pod)
        self._holds[hold.pod.key] = hold

    def _leave(self, key: str, *, released: bool) -> None:
        hold = self._holds.pop(key, None)
        self._news.pop(key, None)
        if hold is not None and not released:
            self._left.append(hold.pod)
        self.unseat(key)

    def _wait(self, key: str, holds: Sequence[Hold]) -> None:
        for hold in holds:
            place = self.place_of(hold.pod.key)
            if place is None:
                continue
            if hold.pod.gang:
                place.gangs.add(key)
                self.gangs[key] = self._index.changes.tick
            else:
                place.waiting.put(order_of(hold.pod))

    def _set_due(self, key: str, holds: Sequence[Hold], now: float) -> None:
        times = [hold.deadline for hold in holds if hold.deadline is not None]
        # A mark in the future counts from when it is reached.
        times += [hold.pod.held_since for hold in holds if hold.pod.held_since is not None]
        due = min((time for time in times if time > now), default=None)
        if due is None:
            self._due_of.pop(key, None)
        elif self._due_of.get(key) != due:
            self._due_of[key] = due
            heappush(self._due, (due, key))
        if len(self._due) > _MOST_OUTDATED + 2 * len(self._due_of):
            self._due[:] = sorted((due, key) for key, due in self._due_of.items())

    def _is_outdated(self, due: float, key: str) -> bool:
        return self._due_of.get(key) != due


def _takes(pod: PodView | None) -> tuple[str, Resources] | None:
    return (pod.node, pod.requests) if pod is not None and pod.node and not pod.finished else None


def _is_loose(pod: PodView) -> bool:
    return bool(pod.uid) and not (pod.node or pod.gated or pod.finished)


def _is_same_wish(old: PodView, new: PodView) -> bool:
    """Tell whether nothing changed but what we wrote ourselves about why it waits."""
    return old.waiting != new.waiting and replace(old, waiting=new.waiting) == new


@lru_cache(maxsize=256)
def named_datasets(text: str, namespace: str) -> tuple[str, ...]:
    """Return the keys of the Datasets that an annotation names."""
    requests = parse_datasets(text, namespace)
    return () if isinstance(requests, Refusal) else tuple(dict.fromkeys(one.key for one in requests))

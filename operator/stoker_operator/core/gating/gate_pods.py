"""The pods in gating: their use of room, and each held pod's place, decision and deadline."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final

from stoker_api.jobs.pod_annotations import Refusal, parse_datasets
from stoker_operator.core.gating.gate_index import GateIndex
from stoker_operator.core.gating.pod_class import AskingOrder, Order, PodClass
from stoker_operator.core.gating.releases import Hold, Release
from stoker_operator.core.views.cluster import PodView
from stoker_operator.core.views.resources import Resources


@dataclass
class Group:
    """Held pods that are released together. ``present``: existing members, held or not.

    Running and succeeded members are present, so the replacement of a failed pod is released alone.
    """

    held: dict[str, PodView] = field(default_factory=dict)
    present: int = 0
    members: int = 0

    @property
    def pods(self) -> list[PodView]:
        """The held pods, oldest first."""
        return sorted(self.held.values(), key=order_of)

    @property
    def order(self) -> Order:
        """The order of its turn: that of its oldest pod."""
        return min(map(order_of, self.held.values()))

    @property
    def size(self) -> int:
        """Number of expected members."""
        return max((pod.gang_size for pod in self.held.values()), default=0)


class HeldGroups:
    """All groups with a held pod, and all gangs with members."""

    def __init__(self) -> None:
        self._groups: Final[dict[str, Group]] = {}

    def get(self, key: str) -> Group | None:
        """Return a group if it has a held pod."""
        group = self._groups.get(key)
        return group if group is not None and group.held else None

    def put(self, old: PodView | None, new: PodView | None) -> set[str]:
        """Update a pod. Return the keys of affected groups."""
        touched = set[str]()
        if old is not None and (key := group_key(old)):
            touched |= self._leave(key, old, replaced=new is not None and group_key(new) == key)
        if new is not None and (key := group_key(new)):
            touched |= self._join(key, new)
        return touched

    def _leave(self, key: str, pod: PodView, *, replaced: bool) -> set[str]:
        group = self._groups[key]
        group.members -= 1
        group.present -= _is_present(pod)
        group.held.pop(pod.key, None)
        if not group.members and not replaced:
            del self._groups[key]
        return {key}

    def _join(self, key: str, pod: PodView) -> set[str]:
        group = self._groups.setdefault(key, Group())
        group.members += 1
        group.present += _is_present(pod)
        if pod.gated:
            group.held[pod.key] = pod
        return {key}


def group_key(pod: PodView) -> str:
    """Return the group of a pod, or "" if it is neither held nor in a gang."""
    if pod.gang:
        return f"{pod.namespace}/gang/{pod.gang}"
    return f"{pod.key}/alone" if pod.gated else ""


def order_of(pod: PodView) -> Order:
    """Return the order of a pod's turn: by creation time, then key."""
    return pod.created, pod.key


def other_gates(pods: Iterable[PodView]) -> tuple[str, ...]:
    """Return the scheduling gates of other controllers on any of the pods."""
    return tuple(sorted({gate for pod in pods for gate in pod.other_gates}))


def _is_present(pod: PodView) -> bool:
    return pod.phase != "Failed" and not pod.deleting


_MOST_OUTDATED = 100  # outdated times to keep, in addition to twice the current ones


@dataclass(frozen=True)
class Seat:
    """The place of a held pod, or the error that prevents one. ``asks``: its rank among the pods there."""

    place: PodClass | Exception
    asks: AskingOrder


class GatePods:
    """All pods for gating. Keys identify groups."""

    def __init__(self, index: GateIndex) -> None:
        self._index: Final = index
        self.groups: Final = HeldGroups()
        self._stale: Final[set[str]] = set()  # groups that need a decision after a change
        self.gangs: Final[dict[str, int]] = {}  # gangs that wait for warmth or room, with the tick of the last try
        self._pods: Final[dict[str, PodView]] = {}
        self._loose: Final[dict[str, PodView]] = {}  # released pods without a node, by UID
        self._named: Final[dict[str, Counter[str]]] = {}  # groups by the keys of their pods' Datasets
        self._seats: Final[dict[str, Seat]] = {}
        self._held: Final[dict[str, tuple[str, ...]]] = {}  # pods of each group that stays held
        self._holds: Final[dict[str, Hold]] = {}
        self._news: Final[dict[str, Hold]] = {}
        self._left: Final[list[PodView]] = []
        self._let_go: Final[set[str]] = set()  # released pods without an update since
        self._due: Final[list[tuple[float, str]]] = []
        self._due_of: Final[dict[str, float]] = {}

    def put(self, key: str, pod: PodView | None) -> None:
        """Update a pod. None: it is deleted."""
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
        # A released pod that arrives as held was not released. Decide again, even if nothing else changed.
        if old is None or pod is None or key in self._let_go or not _is_same_wish(old, pod):
            self._stale.update(touched)
        self._let_go.discard(key)

    def dataset_changed(self, key: str) -> None:
        """Mark all groups that name a Dataset for a new decision."""
        self._stale.update(self._named.get(key, ()))

    def on_their_way(self, bookings: Mapping[str, Sequence[str]]) -> list[tuple[Resources, Sequence[str]]]:
        """Return the requests of released pods without a node, with their possible nodes."""
        return [(self._loose[uid].requests, nodes) for uid, nodes in bookings.items() if uid in self._loose]

    def seat(self, pod: PodView, place: PodClass | Exception, turn: Order) -> None:
        """Give a pod its place, or the error that prevents one. ``turn``: the order of its group."""
        asks = (bool(pod.other_gates), turn, order_of(pod))
        known = self._seats.get(pod.key)
        if known is not None and (known.place, known.asks) == (place, asks):
            return
        self.unseat(pod.key)
        self._seats[pod.key] = Seat(place, asks)
        if isinstance(place, PodClass):
            place.ask(asks)
            self._index.changes.any = True

    def unseat(self, key: str) -> None:
        """Remove a pod's place, because the pod leaves or its demand is unknown."""
        seat = self._seats.pop(key, None)
        if seat is not None and isinstance(seat.place, PodClass):
            seat.place.stop_asking(seat.asks)
            self._index.changes.any = True

    def place(self, pod: PodView) -> PodClass:
        """Return the place of a pod. Raises the error that prevents one."""
        place = self._seats[pod.key].place
        if isinstance(place, Exception):
            raise place
        if place.nodes.error is not None:
            raise place.nodes.error
        return place

    def place_of(self, key: str) -> PodClass | None:
        """Return the place of the pod with this key, if it has one."""
        seat = self._seats.get(key)
        return seat.place if seat is not None and isinstance(seat.place, PodClass) else None

    def settle(self, key: str, decisions: Sequence[Hold | Release], now: float) -> list[Release]:
        """Record the decisions on a group. Return its releases."""
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
        """Return new or changed holds, and pods that are no longer held.

        Expected pods are left out, because they do not exist.
        """
        holds = tuple(hold for hold in self._news.values() if not hold.pod.expected)
        found = holds, tuple(pod for pod in self._left if not pod.expected)
        self._news.clear()
        self._left.clear()
        return found

    def unpark(self, key: str) -> None:
        """Remove a group from the queues of its places before a decision."""
        self.gangs.pop(key, None)
        for pod in self._held.get(key, ()):
            if (place := self.place_of(pod)) is not None:
                place.gangs.discard(key)
                place.waiting.drop(order_of(self._holds[pod].pod))

    def order(self, key: str) -> Order:
        """Return the order of a group's turn. A deleted group comes first."""
        group = self.groups.get(key)
        return (0.0, "") if group is None else group.order

    def take_stale(self) -> list[str]:
        """Return and clear the groups that need a decision after a change."""
        found = list(self._stale)
        self._stale.clear()
        return found

    def take_due(self, now: float) -> set[str]:
        """Return the groups whose time has come."""
        found = set[str]()
        while self._due and (self._due[0][0] <= now or self._is_outdated(*self._due[0])):
            due, key = heappop(self._due)
            if self._due_of.get(key) == due:
                found.add(key)
        return found

    def times(self, now: float) -> Iterable[float]:
        """Return the next time at which time alone requires a decision."""
        while self._due and self._is_outdated(*self._due[0]):
            heappop(self._due)
        return (self._due[0][0],) if self._due else ()

    def waiting_groups(self, place: PodClass) -> set[str]:
        """Return the groups that wait for warmth or room at a place."""
        return {*place.gangs, *(f"{pod}/alone" for _, pod in place.waiting)}

    def places_of(self, key: str) -> set[PodClass]:
        """Return the places of the pods of a held group."""
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
        # A mark in the future counts when it is reached.
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
    """Return True if only the operator's own annotation about waiting changed."""
    return old.waiting != new.waiting and replace(old, waiting=new.waiting) == new


@lru_cache(maxsize=256)
def named_datasets(text: str, namespace: str) -> tuple[str, ...]:
    """Return the keys of the Datasets in an annotation."""
    requests = parse_datasets(text, namespace)
    return () if isinstance(requests, Refusal) else tuple(dict.fromkeys(one.key for one in requests))

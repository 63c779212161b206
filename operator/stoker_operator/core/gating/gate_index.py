"""The cluster state for gating, updated incrementally. A change updates only its own node and dependents."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.fitting.capacity import FreeCapacity
from stoker_operator.core.fitting.feasible_nodes import silent_until
from stoker_operator.core.fitting.node_bits import NodeNumbers, NodeSets, SetChanges
from stoker_operator.core.fitting.pod_demand import PodDemand
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.gating.class_sets import ClassSets, Keys, keys_of
from stoker_operator.core.gating.pod_class import PodClass
from stoker_operator.core.views.cluster import NodeView, PodView
from stoker_operator.core.views.resources import Resources

_IDLE = 64  # kept places without pods: the next pods of a Job often resemble the last
Part = TypeVar("Part", bound=NodeSets)


class GateIndex:
    """Nodes, their free capacity and data, and the places of held pods. Times are in seconds since the epoch."""

    def __init__(self) -> None:
        self.changes: Final = SetChanges()
        self.numbers: Final = NodeNumbers()
        self.nodes: Final[dict[str, NodeView]] = {}
        self.capacity: Final = FreeCapacity()
        self.places: Final[dict[Keys, PodClass]] = {}
        self._asked: dict[str, Resources | None] = {}
        self._before: Final[dict[str, Resources | None]] = {}  # free after the last pass, of nodes that may differ
        self._warmth: Final = WarmthIndex()
        self._silent: Final[dict[str, float]] = {}  # silent nodes, and when each is given up
        self._sets: Final = ClassSets(self.changes, self.numbers, self.nodes, self.capacity, self._warmth)

    def put_node(self, name: str, node: NodeView | None, now: float) -> None:
        """Update a node. None: it is deleted."""
        at = self.numbers.find(name)
        self._will_change(name)
        self._silent.pop(name, None)
        if node is None:
            self._drop_node(name, at)
            return
        self.nodes[name] = node
        self.capacity.put_node(name, node.allocatable)
        if at is None:
            at = self._add_node(name)
        until = silent_until(node)
        if until is not None and until > now:
            self._silent[name] = until
        self._sets.put_node(at, node, now)
        self._sets.put_room(name, at)

    def put_cache(self, name: str, cache: NodeCache | None) -> None:
        """Update a node's data. None: its NodeCache is gone."""
        self._sets.put_datasets(self._warmth.put(name, cache), self.numbers.find(name), name)

    def bind(self, node: str, requests: Resources) -> None:
        """Count a pod that is bound to a node."""
        self._will_change(node)
        self.capacity.bind(node, requests)
        self._sets.put_room(node, self.numbers.find(node))

    def unbind(self, node: str, requests: Resources) -> None:
        """Stop counting a bound pod."""
        self._will_change(node)
        self.capacity.unbind(node, requests)
        self._sets.put_room(node, self.numbers.find(node))

    def rebook(self, bookings: Sequence[tuple[Resources, Sequence[str]]]) -> None:
        """Book the released pods without a node, each on the first of its nodes with room."""
        for node in self.capacity.booked:
            self._will_change(node)
        for node in self.capacity.rebook(bookings):
            self._mark_free(node)
        self._note_more()

    def refresh(self, now: float) -> None:
        """Give up nodes that are silent for too long."""
        for name in [name for name, until in self._silent.items() if until <= now]:
            self.put_node(name, self.nodes[name], now)

    def take(self, requests: Resources, node: str) -> None:
        """Book a pod on a node."""
        self.capacity.take(requests, node)
        self._mark_free(node)

    def give_back(self, requests: Resources, node: str) -> None:
        """Undo a ``take``."""
        self.capacity.give_back(requests, node)
        self._mark_free(node)

    def rooms(self) -> Mapping[str, int]:
        """Return the free room, for ``restore``."""
        return {key: room.free for key, room in self._sets.rooms.items()}

    def restore(self, taken: Sequence[tuple[Resources, str]], rooms: Mapping[str, int]) -> None:
        """Undo some takes. Keep the free capacity of their nodes for ``is_changed``."""
        for requests, node in taken:
            self.capacity.give_back(requests, node)
        for key, free in rooms.items():
            self._sets.rooms[key].free = free
        self._asked = {node: self.capacity.free(node) for _, node in taken}

    @property
    def is_changed(self) -> bool:
        """Return True if held pods might ask for different nodes.

        Any other node counts when its room for one more pod appears or disappears. For a node that pods asked for, the
        exact number of pods with room counts too.
        """
        return self.changes.any or any(self.capacity.free(node) != free for node, free in self._asked.items())

    def place(self, pod: PodView, demand: PodDemand, now: float) -> PodClass:
        """Return the place of a pod. A new place reads all nodes."""
        keys = keys_of(pod, demand)
        if keys not in self.places:
            self.places[keys] = place = self._sets.place(keys, pod, demand, now)
            place.told = place.facts()
            self._tidy(keys)
        return self.places[keys]

    def _will_change(self, node: str) -> None:
        self._before.setdefault(node, self.capacity.free(node))

    def _note_more(self) -> None:
        """Retry gangs on nodes that had room and have more than after the last pass."""
        while self._before:
            node, before = self._before.popitem()
            at, free = self.numbers.find(node), self.capacity.free(node)
            if at is not None and free is not None and (before is None or free.exceeds(before)):
                for room in self._sets.rooms.values():
                    room.note_more(at)

    def _mark_free(self, node: str) -> None:
        at = self.numbers.find(node)
        if at is not None:
            for room in self._sets.rooms.values():
                room.mark_free(at, node, self.capacity)

    def _add_node(self, name: str) -> int:
        at = self.numbers.insert(name)
        for part in self._sets.sets():
            part.open_at(at)
        for data in self._sets.data.values():
            self._sets.put_data(data, at, name)
        return at

    def _drop_node(self, name: str, at: int | None) -> None:
        if at is None:
            return
        del self.nodes[name]
        self.capacity.put_node(name, None)
        self.numbers.remove(at)
        for part in self._sets.sets():
            part.close_at(at)
        for nodes in self._sets.feasible.values():
            nodes.forget(name)
        self.changes.any = True

    def _tidy(self, new: Keys) -> None:
        """Remove the oldest places without pods, and parts that no place uses."""
        idle = [keys for keys, place in self.places.items() if not place.used and keys != new]
        if len(idle) <= _IDLE:
            return
        for keys in idle[:-_IDLE]:
            del self.places[keys]
        self._sets.keep_only(self.places)

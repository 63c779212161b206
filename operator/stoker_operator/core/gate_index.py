"""What gating knows of the cluster, kept in step with it: each change touches what depends on it, and no other node."""

from collections.abc import Generator, Mapping, Sequence
from typing import Final, TypeVar

from stoker_api.dataset import Dataset
from stoker_api.nodecache import NodeCache
from stoker_operator.core.capacity import FreeCapacity
from stoker_operator.core.constraints import allowed_key, constraints_key, data_key, room_key
from stoker_operator.core.feasible_nodes import FeasibleNodes, silent_until
from stoker_operator.core.node_bits import NodeNumbers, NodeSets, SetChanges
from stoker_operator.core.node_data import AllowedNodes, NodeData
from stoker_operator.core.places import Place
from stoker_operator.core.pod_demand import PodDemand
from stoker_operator.core.resources import Resources
from stoker_operator.core.room import PodRoom
from stoker_operator.core.views import NodeView, PodView
from stoker_operator.core.warmth import WarmthIndex

_IDLE = 64  # places without pods that are kept: the next pods of a Job are often like the last
Part = TypeVar("Part", bound=NodeSets)
Slices = Generator[None, None, None]  # work that gives way at each yield


class GateIndex:
    """Nodes, their free capacity and their data, and the places of held pods. Times in seconds since the epoch."""

    def __init__(self) -> None:
        self.changes: Final = SetChanges()
        self.numbers: Final = NodeNumbers()
        self.nodes: Final[dict[str, NodeView]] = {}
        self.capacity: Final = FreeCapacity()
        self.places: Final[dict[tuple[str, ...], Place]] = {}
        self._asked: dict[str, Resources | None] = {}
        self._before: Final[dict[str, Resources | None]] = {}  # free after the last pass, where that may have changed
        self._warmth: Final = WarmthIndex()
        self._silent: Final[dict[str, float]] = {}  # nodes that are, and until when
        self._feasible: Final[dict[str, FeasibleNodes]] = {}
        self._rooms: Final[dict[str, PodRoom]] = {}
        self._allowed: Final[dict[str, AllowedNodes]] = {}
        self._data: Final[dict[str, NodeData]] = {}
        self._data_of: Final[dict[str, set[str]]] = {}  # keys of _data, by the UIDs of their Datasets

    def put_node(self, name: str, node: NodeView | None, now: float) -> None:
        """Take over a node, None when it is gone."""
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
        for part in self._feasible.values():
            part.put(at, node, now)
        for allowed in self._allowed.values():
            allowed.put(at, node)
        self._put_room(name, at)

    def put_cache(self, name: str, cache: NodeCache | None) -> None:
        """Take over what a node says of its data, None when it says nothing any more."""
        at = self.numbers.find(name)
        for key in {key for uid in self._warmth.put(name, cache) for key in self._data_of.get(uid, ())}:
            self._put_data(self._data[key], at, name)

    def bind(self, node: str, requests: Resources) -> None:
        """Count a pod that is bound to a node."""
        self._will_change(node)
        self.capacity.bind(node, requests)
        self._put_room(node, self.numbers.find(node))

    def unbind(self, node: str, requests: Resources) -> None:
        """Count it no more."""
        self._will_change(node)
        self.capacity.unbind(node, requests)
        self._put_room(node, self.numbers.find(node))

    def rebook(self, bookings: Sequence[tuple[Resources, Sequence[str]]]) -> Slices:
        """Book the pods that are on their way, each on the first of its nodes with room; the first step of a pass."""
        for node in self.capacity.booked:
            self._will_change(node)
        for node in self.capacity.rebook(bookings):
            self._mark_free(node)
            yield
        yield from self._note_more()

    def refresh(self, now: float) -> Slices:
        """Give up nodes that have been silent for too long."""
        for name in [name for name, until in self._silent.items() if until <= now]:
            self.put_node(name, self.nodes[name], now)
            yield

    def take(self, requests: Resources, node: str) -> None:
        """Book a pod on a node."""
        self.capacity.take(requests, node)
        self._mark_free(node)

    def give_back(self, requests: Resources, node: str) -> None:
        """Undo a ``take``."""
        self.capacity.give_back(requests, node)
        self._mark_free(node)

    def rooms(self) -> Mapping[str, int]:
        """Return where there is room now, for ``restore``."""
        return {key: room.free for key, room in self._rooms.items()}

    def restore(self, taken: Sequence[tuple[Resources, str]], rooms: Mapping[str, int]) -> None:
        """Undo some takes, as if they had never been; how much is free on these nodes is kept for ``is_changed``."""
        for requests, node in taken:
            self.capacity.give_back(requests, node)
        for key, free in rooms.items():
            self._rooms[key].free = free
        self._asked = {node: self.capacity.free(node) for _, node in taken}

    @property
    def is_changed(self) -> bool:
        """Tell whether held pods might ask for other nodes than they did.

        A node that nobody asked for is told of when it gets room for one more pod, or has none left; of one that was
        asked for, how many more it has room for counts as well.
        """
        return self.changes.any or any(self.capacity.free(node) != free for node, free in self._asked.items())

    def place(self, pod: PodView, demand: PodDemand, now: float) -> Generator[None, None, Place]:
        """Return the place of a pod, which may have to be made: for that all nodes are looked at, in slices."""
        keys = (constraints_key(pod), room_key(pod.requests), data_key(demand), allowed_key(demand.datasets))
        if keys not in self.places:
            nodes = yield from self._feasible_nodes(keys[0], pod, now)
            room = yield from self._room(keys[1], pod.requests)
            data = yield from self._node_data(keys[2], demand)
            allowed = yield from self._allowed_nodes(keys[3], demand.datasets)
            self.places[keys] = place = Place(nodes, room, data, allowed)
            place.told = place.facts()
            self._tidy(keys)
        return self.places[keys]

    def _feasible_nodes(self, key: str, pod: PodView, now: float) -> Generator[None, None, FeasibleNodes]:
        if key not in self._feasible:
            made = FeasibleNodes(self.changes, pod)
            for at, name in enumerate(self.numbers.names):
                made.put(at, self.nodes[name], now)
                yield
            self._feasible[key] = made
        return self._feasible[key]

    def _room(self, key: str, requests: Resources) -> Generator[None, None, PodRoom]:
        if key not in self._rooms:
            made = PodRoom(self.changes, requests)
            for at, name in enumerate(self.numbers.names):
                made.put(at, name, self.capacity)
                yield
            self._rooms[key] = made
        return self._rooms[key]

    def _allowed_nodes(self, key: str, datasets: Sequence[Dataset]) -> Generator[None, None, AllowedNodes]:
        if key not in self._allowed:
            made = AllowedNodes(self.changes, datasets)
            for at, name in enumerate(self.numbers.names):
                made.put(at, self.nodes[name])
                yield
            self._allowed[key] = made
        return self._allowed[key]

    def _node_data(self, key: str, demand: PodDemand) -> Generator[None, None, NodeData]:
        if key not in self._data:
            made = NodeData(self.changes, demand.datasets, demand.versions)
            for name in sorted(set[str]().union(*(self._warmth.nodes(dataset) for dataset in demand.datasets))):
                self._put_data(made, self.numbers.find(name), name)
                yield
            self._data[key] = made
            for dataset in demand.datasets:
                self._data_of.setdefault(dataset.metadata.uid, set()).add(key)
        return self._data[key]

    def _put_data(self, data: NodeData, at: int | None, name: str) -> None:
        known = self._warmth.holds(data.datasets, name)
        data.put(at, name, self._warmth.together(data.datasets, name, data.versions) if known else None)

    def _put_room(self, node: str, at: int | None) -> None:
        if at is not None:
            for room in self._rooms.values():
                room.put(at, node, self.capacity)

    def _will_change(self, node: str) -> None:
        self._before.setdefault(node, self.capacity.free(node))

    def _note_more(self) -> Slices:
        """Have gangs tried again where a node has room for more of them than after the last pass, and had for some."""
        while self._before:
            node, before = self._before.popitem()
            at, free = self.numbers.find(node), self.capacity.free(node)
            if at is not None and free is not None and (before is None or free.exceeds(before)):
                for room in self._rooms.values():
                    room.note_more(at)
            yield

    def _mark_free(self, node: str) -> None:
        at = self.numbers.find(node)
        if at is not None:
            for room in self._rooms.values():
                room.mark_free(at, node, self.capacity)

    def _parts(self) -> Sequence[NodeSets]:
        return (*self._feasible.values(), *self._rooms.values(), *self._allowed.values(), *self._data.values())

    def _add_node(self, name: str) -> int:
        at = self.numbers.insert(name)
        for part in self._parts():
            part.open_at(at)
        for data in self._data.values():
            self._put_data(data, at, name)
        return at

    def _drop_node(self, name: str, at: int | None) -> None:
        if at is None:
            return
        del self.nodes[name]
        self.capacity.put_node(name, None)
        self.numbers.remove(at)
        for part in self._parts():
            part.close_at(at)
        for nodes in self._feasible.values():
            nodes.forget(name)
        self.changes.any = True

    def _tidy(self, new: tuple[str, ...]) -> None:
        """Forget the oldest places without pods, and what no place needs any more."""
        idle = [keys for keys, place in self.places.items() if not place.used and keys != new]
        if len(idle) <= _IDLE:
            return
        for keys in idle[:-_IDLE]:
            del self.places[keys]
        _keep_only(self._feasible, {keys[0] for keys in self.places})
        _keep_only(self._rooms, {keys[1] for keys in self.places})
        _keep_only(self._data, {keys[2] for keys in self.places})
        _keep_only(self._allowed, {keys[3] for keys in self.places})
        for uid in list(self._data_of):
            self._data_of[uid] &= self._data.keys()
            if not self._data_of[uid]:
                del self._data_of[uid]


def _keep_only(parts: dict[str, Part], needed: set[str]) -> None:
    for key in parts.keys() - needed:
        del parts[key]

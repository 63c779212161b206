"""The sets of nodes that places of held pods share. A change updates only its own node."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from stoker_api.datasets.dataset import Dataset
from stoker_operator.core.fitting.capacity import FreeCapacity, PodRoom
from stoker_operator.core.fitting.feasible_nodes import FeasibleNodes, allowed_key, constraints_key, data_key, room_key
from stoker_operator.core.fitting.node_bits import NodeNumbers, NodeSets, SetChanges
from stoker_operator.core.fitting.pod_demand import PodDemand
from stoker_operator.core.fitting.warmth import WarmthIndex
from stoker_operator.core.gating.pod_class import AllowedNodes, NodeData, PodClass
from stoker_operator.core.views.cluster import NodeView, PodView
from stoker_operator.core.views.resources import Resources

Part = TypeVar("Part", bound=NodeSets)
Keys = tuple[str, str, str, str]  # of the four sets of a place


def keys_of(pod: PodView, demand: PodDemand) -> Keys:
    """Return the keys of a pod's place: pods with equal keys share it."""
    return constraints_key(pod), room_key(pod.requests), data_key(demand), allowed_key(demand.datasets)


class ClassSets:
    """The sets by key. ``numbers``, ``nodes``, ``capacity`` and ``warmth`` are the current state, of other owners."""

    def __init__(
        self,
        changes: SetChanges,
        numbers: NodeNumbers,
        nodes: Mapping[str, NodeView],
        capacity: FreeCapacity,
        warmth: WarmthIndex,
    ) -> None:
        self._changes: Final = changes
        self._numbers: Final = numbers
        self._nodes: Final = nodes
        self._capacity: Final = capacity
        self._warmth: Final = warmth
        self.feasible: Final[dict[str, FeasibleNodes]] = {}
        self.rooms: Final[dict[str, PodRoom]] = {}
        self.allowed: Final[dict[str, AllowedNodes]] = {}
        self.data: Final[dict[str, NodeData]] = {}
        self._data_of: Final[dict[str, set[str]]] = {}  # keys of data by the UIDs of their Datasets

    def place(self, keys: Keys, pod: PodView, demand: PodDemand, now: float) -> PodClass:
        """Make the place of a pod. New sets read all nodes. ``now``: seconds since the epoch."""
        return PodClass(
            self._feasible_nodes(keys[0], pod, now),
            self._room(keys[1], pod.requests),
            self._node_data(keys[2], demand),
            self._allowed_nodes(keys[3], demand.datasets),
        )

    def put_node(self, at: int, node: NodeView, now: float) -> None:
        """Update the node with number ``at``."""
        for part in self.feasible.values():
            part.put(at, node, now)
        for allowed in self.allowed.values():
            allowed.put(at, node)

    def put_datasets(self, uids: Iterable[str], at: int | None, name: str) -> None:
        """Update a node's data of these Datasets."""
        for key in {key for uid in uids for key in self._data_of.get(uid, ())}:
            self.put_data(self.data[key], at, name)

    def keep_only(self, used: Iterable[Keys]) -> None:
        """Remove the sets that no place uses. ``used``: the keys of all places, one or more."""
        feasible, rooms, data, allowed = (set(part) for part in zip(*used, strict=True))
        _keep_only(self.feasible, feasible)
        _keep_only(self.rooms, rooms)
        _keep_only(self.data, data)
        _keep_only(self.allowed, allowed)
        for uid in list(self._data_of):
            self._data_of[uid] &= self.data.keys()
            if not self._data_of[uid]:
                del self._data_of[uid]

    def _feasible_nodes(self, key: str, pod: PodView, now: float) -> FeasibleNodes:
        if key not in self.feasible:
            made = FeasibleNodes(self._changes, pod)
            for at, name in enumerate(self._numbers.names):
                made.put(at, self._nodes[name], now)
            self.feasible[key] = made
        return self.feasible[key]

    def _room(self, key: str, requests: Resources) -> PodRoom:
        if key not in self.rooms:
            made = PodRoom(self._changes, requests)
            for at, name in enumerate(self._numbers.names):
                made.put(at, name, self._capacity)
            self.rooms[key] = made
        return self.rooms[key]

    def _allowed_nodes(self, key: str, datasets: Sequence[Dataset]) -> AllowedNodes:
        if key not in self.allowed:
            made = AllowedNodes(self._changes, datasets)
            for at, name in enumerate(self._numbers.names):
                made.put(at, self._nodes[name])
            self.allowed[key] = made
        return self.allowed[key]

    def _node_data(self, key: str, demand: PodDemand) -> NodeData:
        if key not in self.data:
            made = NodeData(self._changes, demand.datasets, demand.versions)
            for name in sorted(set[str]().union(*(self._warmth.nodes(dataset) for dataset in demand.datasets))):
                self.put_data(made, self._numbers.find(name), name)
            self.data[key] = made
            for dataset in demand.datasets:
                self._data_of.setdefault(dataset.metadata.uid, set()).add(key)
        return self.data[key]

    def put_data(self, data: NodeData, at: int | None, name: str) -> None:
        """Update one set by a node's data."""
        known = self._warmth.holds(data.datasets, name)
        data.put(at, name, self._warmth.together(data.datasets, name, data.versions) if known else None)

    def put_room(self, node: str, at: int | None) -> None:
        """Update the room for pods on a node. None: the node is unknown."""
        if at is not None:
            for room in self.rooms.values():
                room.put(at, node, self._capacity)

    def sets(self) -> Sequence[NodeSets]:
        """Return all sets."""
        return (*self.feasible.values(), *self.rooms.values(), *self.allowed.values(), *self.data.values())


def _keep_only(parts: dict[str, Part], needed: set[str]) -> None:
    for key in parts.keys() - needed:
        del parts[key]

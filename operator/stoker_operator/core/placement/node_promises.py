"""The bytes that a node needs for a Dataset, and the room promised on each node, by Dataset."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.warm_paths import paths_digest
from stoker_api.meta import parse_quantity
from stoker_operator.core.views.node_states import NodeState

Promise = tuple[int | None, int]  # bytes to download, None if not placed; bytes freed by dropping it
NOTHING: Promise = (None, 0)


@dataclass(frozen=True, slots=True)
class Question:
    """A check whether a node had room for a Dataset in its turn. Changes to earlier promises require a new check."""

    need: int
    answer: bool


class NodePromises:
    """The promises on all nodes. ``positions``: the turn of each Dataset's key, which the owner updates."""

    def __init__(self, positions: Mapping[str, int]) -> None:
        self._positions: Final = positions
        self._base: Final[dict[str, int]] = {}
        self._made: Final[defaultdict[str, dict[str, Promise]]] = defaultdict(dict)
        self._free: Final[Counter[str]] = Counter()
        self._given: Final[Counter[str]] = Counter()
        self._idle: Final[Counter[str]] = Counter()
        self.short: Final[set[str]] = set()  # nodes with more promises than room

    def set_base(self, node: str, room: int | None) -> bool:
        """Set a node's room, None without a NodeCache. Return True if it changed."""
        before = self._base.get(node, 0)
        if room is None:
            self._base.pop(node, None)
        else:
            self._base[node] = room
        self._add(node, (room or 0) - before)
        return (room or 0) != before

    def set(self, node: str, key: str, promise: Promise) -> bool:
        """Replace the promise of a Dataset on a node. Return True if it changed."""
        made = self._made[node]
        before = made.get(key, NOTHING)
        if promise == before:
            return False
        if promise == NOTHING:
            del made[key]
            if not made:
                del self._made[node]
        else:
            made[key] = promise
        self._given[node] += (promise[0] is not None) - (before[0] is not None)
        self._idle[node] += promise[1] - before[1]
        self._add(node, (before[0] or 0) - (promise[0] or 0))
        return True

    def _add(self, node: str, room: int) -> None:
        self._free[node] += room
        if self._free[node] < 0:
            self.short.add(node)
        else:
            self.short.discard(node)

    def free(self, node: str) -> int:
        """Return a node's free bytes after all promises."""
        return self._free.get(node, 0)

    def given(self, node: str) -> int:
        """Return the number of Datasets placed on a node."""
        return self._given.get(node, 0)

    def idle(self, node: str) -> int:
        """Return the bytes that dropping a node's idle data frees."""
        return self._idle.get(node, 0)

    def idle_last_first(self, node: str) -> Iterator[str]:
        """Yield the Datasets with droppable idle data on a node, last turn first."""
        found = [key for key, (_, freed) in self._made.get(node, {}).items() if freed]
        yield from sorted(found, key=self._positions.__getitem__, reverse=True)

    def fits_before(self, node: str, position: int, need: int) -> bool:
        """Return True if a node has room for ``need`` bytes after the turns before ``position``."""
        room = self._base.get(node, 0)
        for key, (given, idle) in self._made.get(node, {}).items():
            if self._positions[key] < position:
                room += idle - (given or 0)
        return room >= need


class TurnRoom:
    """The room on nodes in one Dataset's turn. It records the Dataset's checks and promises."""

    def __init__(self, promises: NodePromises, position: int) -> None:
        self._promises: Final = promises
        self._position: Final = position
        self.made: Final[dict[str, Promise]] = {}
        self.asked: Final[dict[str, Question]] = {}
        self.asked_everywhere = False

    def fits(self, node: str, need: int) -> bool:
        """Return True if a node can take ``need`` bytes by dropping its idle data."""
        answer = self._promises.fits_before(node, self._position, need)
        self.asked[node] = Question(need, answer)
        return answer

    def fits_elsewhere(self, nodes: Collection[str], node: str, need: int) -> bool:
        """Return True if any of ``nodes`` except ``node`` can."""
        self.asked_everywhere = True
        others = (other for other in nodes if other != node)
        return any(self._promises.fits_before(other, self._position, need) for other in others)

    def charge(self, node: str, need: int) -> None:
        """Promise ``need`` bytes on a node to the Dataset."""
        self.made[node] = (need, self.made.get(node, NOTHING)[1])

    def count_idle(self, node: str, freed: int) -> None:
        """Record the bytes that dropping the Dataset's idle data frees."""
        self.made[node] = (self.made.get(node, NOTHING)[0], freed)


class LastRoom:
    """The room on nodes after all Datasets kept their data: for new replicas and for evictions."""

    def __init__(self, promises: NodePromises) -> None:
        self._promises: Final = promises
        self._taken: Final[Counter[str]] = Counter()
        self._given: Final[Counter[str]] = Counter()
        self._dropped: Final[Counter[str]] = Counter()

    @property
    def taken(self) -> Collection[str]:
        """Nodes with promises made here."""
        return self._taken.keys()

    def fits(self, node: str, need: int) -> bool:
        """Return True if a node can take ``need`` bytes by dropping its idle data."""
        return self.free(node) + self._promises.idle(node) >= need

    def free(self, node: str) -> int:
        """Return a node's free bytes."""
        return self._promises.free(node) - self._taken.get(node, 0)

    def given(self, node: str) -> int:
        """Return the number of Datasets placed on a node."""
        return self._promises.given(node) + self._given.get(node, 0)

    def charge(self, node: str, need: int) -> None:
        """Promise ``need`` bytes on a node."""
        self._taken[node] += need
        self._given[node] += 1

    def drop(self, node: str, freed: int) -> None:
        """Free the room of dropped idle data, for promises already made."""
        self._dropped[node] += freed

    def after_all(self, node: str) -> int:
        """Return a node's free bytes after all promises and drops. Negative: too little room."""
        return self.free(node) + self._dropped.get(node, 0)


def size_on_node(dataset: Dataset) -> int:
    """Return the bytes that a node needs to hold it, up to the quota. Return 0 before the first listing."""
    size = _part_size(dataset)
    if size is None:
        size = dataset.status.bytes or 0
    quota = dataset.spec.cache.quota
    return min(size, parse_quantity(quota)) if quota else size


def _part_size(dataset: Dataset) -> int | None:
    """Return the bytes of the selected paths. Return None without paths, or if the size is unknown."""
    part = dataset.status.warm_paths
    wanted = paths_digest(dataset.spec.warm.told_paths)
    return part.bytes if part is not None and wanted and part.digest == wanted else None


def listed_size(dataset: Dataset, held: Mapping[str, NodeState]) -> int:
    """Return the bytes that a node needs after a new listing, which may not be in the status yet."""
    if _part_size(dataset) is not None:
        return size_on_node(dataset)
    listings = (state.answer for state in held.values())
    size = max((one.bytes for one in listings if one and one.version), default=0)
    quota = dataset.spec.cache.quota
    return min(size, parse_quantity(quota)) if quota else size

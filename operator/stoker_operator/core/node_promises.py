"""What Datasets were promised on each node, by Dataset, so that one of them can be asked again in its turn."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

Promise = tuple[int | None, int]  # bytes it may still take, None where it was not given; bytes that dropping it frees
NOTHING: Promise = (None, 0)


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a node had room for a Dataset in its turn, which it must be asked again when others' promises change."""

    need: int
    answer: bool


class NodePromises:
    """The promises on all nodes. ``positions``: the turn of each Dataset's key, which its owner keeps up to date."""

    def __init__(self, positions: Mapping[str, int]) -> None:
        self._positions: Final = positions
        self._base: Final[dict[str, int]] = {}
        self._made: Final[defaultdict[str, dict[str, Promise]]] = defaultdict(dict)
        self._free: Final[Counter[str]] = Counter()
        self._given: Final[Counter[str]] = Counter()
        self._idle: Final[Counter[str]] = Counter()
        self.short: Final[set[str]] = set()  # nodes that promised more than they have

    def set_base(self, node: str, room: int | None) -> bool:
        """Take over what a node can take, None where it has no cache; True when that is news."""
        before = self._base.get(node, 0)
        if room is None:
            self._base.pop(node, None)
        else:
            self._base[node] = room
        self._add(node, (room or 0) - before)
        return (room or 0) != before

    def set(self, node: str, key: str, promise: Promise) -> bool:
        """Promise a node's room to a Dataset, in place of the last promise; True when that changes anything."""
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
        """Return what a node can still take after all promises."""
        return self._free.get(node, 0)

    def given(self, node: str) -> int:
        """Count the Datasets that a node was given."""
        return self._given.get(node, 0)

    def idle(self, node: str) -> int:
        """Return the bytes that dropping what is idle on a node would free."""
        return self._idle.get(node, 0)

    def idle_last_first(self, node: str) -> Iterator[str]:
        """Yield the Datasets with something idle on a node that can be dropped, the last in line first."""
        found = [key for key, (_, freed) in self._made.get(node, {}).items() if freed]
        yield from sorted(found, key=self._positions.__getitem__, reverse=True)

    def fits_before(self, node: str, position: int, need: int) -> bool:
        """Tell whether a node has room for so much after the turns before ``position``."""
        room = self._base.get(node, 0)
        for key, (given, idle) in self._made.get(node, {}).items():
            if self._positions[key] < position:
                room += idle - (given or 0)
        return room >= need


class TurnRoom:
    """The room on nodes as one Dataset finds it in its turn, with what it asks and takes written down."""

    def __init__(self, promises: NodePromises, position: int) -> None:
        self._promises: Final = promises
        self._position: Final = position
        self.made: Final[dict[str, Promise]] = {}
        self.asked: Final[dict[str, Question]] = {}
        self.asked_everywhere = False

    def fits(self, node: str, need: int) -> bool:
        """Tell whether a node can take so much, if it gives up what is idle there."""
        answer = self._promises.fits_before(node, self._position, need)
        self.asked[node] = Question(need, answer)
        return answer

    def fits_elsewhere(self, nodes: Collection[str], node: str, need: int) -> bool:
        """Tell whether any of ``nodes`` but ``node`` can."""
        self.asked_everywhere = True
        others = (other for other in nodes if other != node)
        return any(self._promises.fits_before(other, self._position, need) for other in others)

    def charge(self, node: str, need: int) -> None:
        """Promise so much on a node to the Dataset."""
        self.made[node] = (need, self.made.get(node, NOTHING)[1])

    def count_idle(self, node: str, freed: int) -> None:
        """Note that dropping what is idle there would give so much back."""
        self.made[node] = (self.made.get(node, NOTHING)[0], freed)


class LastRoom:
    """The room on nodes after all Datasets kept what they have: for new replicas, and for what has to go."""

    def __init__(self, promises: NodePromises) -> None:
        self._promises: Final = promises
        self._taken: Final[Counter[str]] = Counter()
        self._given: Final[Counter[str]] = Counter()
        self._dropped: Final[Counter[str]] = Counter()

    @property
    def taken(self) -> Collection[str]:
        """Nodes on which something was promised here."""
        return self._taken.keys()

    def fits(self, node: str, need: int) -> bool:
        """Tell whether a node can take so much, if it gives up what is idle there."""
        return self.free(node) + self._promises.idle(node) >= need

    def fits_elsewhere(self, nodes: Collection[str], node: str, need: int) -> bool:
        """Tell whether any of ``nodes`` but ``node`` can."""
        return any(self.fits(other, need) for other in nodes if other != node)

    def free(self, node: str) -> int:
        """Return what a node can still take."""
        return self._promises.free(node) - self._taken.get(node, 0)

    def given(self, node: str) -> int:
        """Count the Datasets that were given to a node."""
        return self._promises.given(node) + self._given.get(node, 0)

    def charge(self, node: str, need: int) -> None:
        """Promise so much on a node."""
        self._taken[node] += need
        self._given[node] += 1

    def count_idle(self, node: str, freed: int) -> None:
        """Leave the sum of idle data as it is: nothing is given after a quota made anybody drop something."""

    def drop(self, node: str, freed: int) -> None:
        """Give back the room of what is idle there, for what was promised already."""
        self._dropped[node] += freed

    def after_all(self, node: str) -> int:
        """Return what a node can still take after all that was promised and dropped; less than nothing: too little."""
        return self.free(node) + self._dropped.get(node, 0)

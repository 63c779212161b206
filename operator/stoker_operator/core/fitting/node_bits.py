"""Sets of nodes as integers, one bit for each node in order of names. "Warm and with room" is one operation."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import ClassVar, Final

from stoker_api.datasets.dataset import Dataset

# Points of a node. With 1,000 choices on 100 nodes, the busiest node gets 23. With a single point it gets 47. An even
# division gives 10.
_POINTS = 8
_BYTES = 4
_ROUND = 1 << 8 * _BYTES


def start_of(datasets: Iterable[Dataset]) -> int:
    """Return where a set of Datasets starts on the ring. It is equal in each process and for any order."""
    (start,) = _points(" ".join(sorted(dataset.key for dataset in datasets)), 1)
    return start


def distance(start: int, node: str) -> int:
    """Return the distance from ``start`` to the next point of a node."""
    return min((point - start) % _ROUND for point in _node_points(node))


class NodeRing:
    """The points of some nodes, in order."""

    def __init__(self) -> None:
        self._points: Final[list[tuple[int, str]]] = []

    def insert(self, name: str) -> None:
        """Add a node that is not on the ring."""
        for point in _node_points(name):
            insort(self._points, (point, name))

    def remove(self, name: str) -> None:
        """Remove a node."""
        for point in _node_points(name):
            del self._points[bisect_left(self._points, (point, name))]

    def walk(self, start: int) -> Iterator[str]:
        """Yield node names from ``start`` on, once around. A node appears once for each of its points."""
        first = bisect_left(self._points, (start, ""))
        for at in range(first - len(self._points), first):
            yield self._points[at][1]


@lru_cache(maxsize=1 << 14)
def _node_points(node: str) -> Sequence[int]:
    return _points(node, _POINTS)


def _points(text: str, count: int) -> tuple[int, ...]:
    found = blake2b(text.encode(), digest_size=_BYTES * count).digest()
    return tuple(int.from_bytes(found[at : at + _BYTES]) for at in range(0, len(found), _BYTES))


_FEW = 64  # a set up to this size is sorted; in a larger set, a few steps on the ring find a member


class NodeNumbers:
    """The numbers of nodes: the index of each name in sorted order, which shifts when a node is added or removed."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._ring = NodeRing()

    @property
    def names(self) -> Sequence[str]:
        """The names, in order."""
        return self._names

    def find(self, name: str) -> int | None:
        """Return the number of a node, or None."""
        at = bisect_left(self._names, name)
        return at if at < len(self._names) and self._names[at] == name else None

    def insert(self, name: str) -> int:
        """Add a node. Return its number. Later numbers increase by one."""
        at = bisect_left(self._names, name)
        self._names.insert(at, name)
        self._ring.insert(name)
        return at

    def remove(self, at: int) -> None:
        """Remove a node. Later numbers decrease by one."""
        self._ring.remove(self._names.pop(at))

    def from_start(self, start: int, among: int) -> Iterator[int]:
        """Yield the numbers of a set in ring order, from ``start`` on."""
        if among.bit_count() <= _FEW:
            yield from sorted(members(among), key=lambda at: (distance(start, self._names[at]), self._names[at]))
            return
        for name in self._ring.walk(start):
            at = bisect_left(self._names, name)
            if among >> at & 1:
                among ^= 1 << at
                yield at


class SetChanges:
    """Change markers for node sets. ``tick`` counts passes. Each change sets ``any``."""

    def __init__(self) -> None:
        self.tick = 1
        self.any = True


class NodeSets:
    """Some sets of nodes. ``grown``: the tick of the last addition to any of them."""

    SETS: ClassVar[tuple[str, ...]]

    def __init__(self, changes: SetChanges) -> None:
        self._changes = changes
        self.grown = changes.tick
        for name in self.SETS:
            setattr(self, name, 0)

    def open_at(self, at: int) -> None:
        """Insert the number of a new node, which is in no set."""
        for name in self.SETS:
            setattr(self, name, opened(getattr(self, name), at))

    def close_at(self, at: int) -> None:
        """Remove the number of a deleted node."""
        for name in self.SETS:
            setattr(self, name, closed(getattr(self, name), at))

    def mark(self, name: str, at: int, value: bool) -> None:
        """Add a node to the set ``name``, or remove it."""
        bits: int = getattr(self, name)
        bit = 1 << at
        if bool(bits & bit) == value:
            return
        setattr(self, name, bits ^ bit)
        self._changes.any = True
        if value:
            self.grown = self._changes.tick


def first(bits: int) -> int:
    """Return the lowest number of a nonempty set."""
    return (bits & -bits).bit_length() - 1


def members(bits: int) -> Iterator[int]:
    """Yield the numbers of a set, in order."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def rank(bits: int, at: int) -> int:
    """Return the number of members below ``at``."""
    return (bits & ((1 << at) - 1)).bit_count()


def nth(bits: int, count: int) -> int:
    """Return the member with exactly ``count`` members below it."""
    low, high = 0, bits.bit_length()
    while low < high:
        middle = (low + high) // 2
        if rank(bits, middle + 1) > count:
            high = middle
        else:
            low = middle + 1
    return low


def opened(bits: int, at: int) -> int:
    """Shift the numbers from ``at`` on up by one."""
    return (bits >> at << (at + 1)) | (bits & ((1 << at) - 1))


def closed(bits: int, at: int) -> int:
    """Remove the number ``at`` and shift later numbers down by one."""
    return (bits >> (at + 1) << at) | (bits & ((1 << at) - 1))

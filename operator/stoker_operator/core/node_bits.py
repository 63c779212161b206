"""Sets of nodes as integers, one bit a node in the order of names: "warm and with room" is one operation for all."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import ClassVar

from stoker_operator.core.node_ring import NodeRing, distance

_FEW = 64  # nodes of a set that are sorted; where there are more, few steps on the ring lead to one


class NodeNumbers:
    """The numbers of nodes: the place of each name among all names, which shifts when a node comes or goes."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._ring = NodeRing()

    @property
    def names(self) -> Sequence[str]:
        """The names, in order."""
        return self._names

    def find(self, name: str) -> int | None:
        """Return the number of a node; None when there is no such node."""
        at = bisect_left(self._names, name)
        return at if at < len(self._names) and self._names[at] == name else None

    def insert(self, name: str) -> int:
        """Add a node that is not there, and return its number: those after it are one higher from then on."""
        at = bisect_left(self._names, name)
        self._names.insert(at, name)
        self._ring.insert(name)
        return at

    def remove(self, at: int) -> None:
        """Take a node away: those after it are one lower from then on."""
        self._ring.remove(self._names.pop(at))

    def from_start(self, start: int, among: int) -> Iterator[int]:
        """Yield the numbers of a set in the order of the ring, from ``start`` on."""
        if among.bit_count() <= _FEW:
            yield from sorted(members(among), key=lambda at: (distance(start, self._names[at]), self._names[at]))
            return
        for name in self._ring.walk(start):
            at = bisect_left(self._names, name)
            if among >> at & 1:
                among ^= 1 << at
                yield at


class SetChanges:
    """What tells the holders of node sets apart in time: ``tick`` counts passes, ``any`` is set with each change."""

    def __init__(self) -> None:
        self.tick = 1
        self.any = True


class NodeSets:
    """Holds some sets of nodes; ``grown``: the tick at which a node was last added to one of them."""

    SETS: ClassVar[tuple[str, ...]]

    def __init__(self, changes: SetChanges) -> None:
        self._changes = changes
        self.grown = changes.tick
        for name in self.SETS:
            setattr(self, name, 0)

    def open_at(self, at: int) -> None:
        """Make room for the number of a new node, which is in no set."""
        for name in self.SETS:
            setattr(self, name, opened(getattr(self, name), at))

    def close_at(self, at: int) -> None:
        """Drop the number of a node that went."""
        for name in self.SETS:
            setattr(self, name, closed(getattr(self, name), at))

    def mark(self, name: str, at: int, value: bool) -> None:
        """Put a node into the set ``name``, or take it out."""
        bits: int = getattr(self, name)
        bit = 1 << at
        if bool(bits & bit) == value:
            return
        setattr(self, name, bits ^ bit)
        self._changes.any = True
        if value:
            self.grown = self._changes.tick


def first(bits: int) -> int:
    """Return the lowest number of a set that is not empty."""
    return (bits & -bits).bit_length() - 1


def members(bits: int) -> Iterator[int]:
    """Yield the numbers of a set, in order."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def rank(bits: int, at: int) -> int:
    """Count the members below the number ``at``."""
    return (bits & ((1 << at) - 1)).bit_count()


def nth(bits: int, count: int) -> int:
    """Return the number below which just ``count`` members are, itself a member."""
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
    """Drop the number ``at`` and shift those after it down by one."""
    return (bits >> (at + 1) << at) | (bits & ((1 << at) - 1))

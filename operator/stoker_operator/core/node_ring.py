"""Nodes on a ring: each choice of Datasets begins elsewhere on it, so that not all ask for the first of equal nodes.

A node lies at several points, which its name alone decides: nodes that come, go or fill up change nothing for those
who ask for others, and a place of many points is about as long as any other.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from stoker_api.dataset import Dataset

# Of a node. Of 1,000 choices on 100 nodes one is asked for 23, and for 47 with a single point; were all even, for 10.
_POINTS = 8
_BYTES = 4
_ROUND = 1 << 8 * _BYTES


def start_of(datasets: Iterable[Dataset]) -> int:
    """Return where on the ring a choice of Datasets begins: the same in each process, whatever their order."""
    (start,) = _points(" ".join(sorted(dataset.key for dataset in datasets)), 1)
    return start


def distance(start: int, node: str) -> int:
    """Return how far it is from ``start`` to the next point of a node."""
    return min((point - start) % _ROUND for point in _node_points(node))


class NodeRing:
    """The points of some nodes, in order."""

    def __init__(self) -> None:
        self._points: Final[list[tuple[int, str]]] = []

    def insert(self, name: str) -> None:
        """Add a node that is not there."""
        for point in _node_points(name):
            insort(self._points, (point, name))

    def remove(self, name: str) -> None:
        """Take a node away."""
        for point in _node_points(name):
            del self._points[bisect_left(self._points, (point, name))]

    def walk(self, start: int) -> Iterator[str]:
        """Yield the names of the nodes from ``start`` on, once around; each comes as often as it has points."""
        first = bisect_left(self._points, (start, ""))
        for at in range(first - len(self._points), first):
            yield self._points[at][1]


@lru_cache(maxsize=1 << 14)
def _node_points(node: str) -> Sequence[int]:
    return _points(node, _POINTS)


def _points(text: str, count: int) -> tuple[int, ...]:
    found = blake2b(text.encode(), digest_size=_BYTES * count).digest()
    return tuple(int.from_bytes(found[at : at + _BYTES]) for at in range(0, len(found), _BYTES))

"""Which of many nodes ask each other for what is cold: few of all, and any of them by a few steps. Pure.

Nodes have numbers from 0 without a gap. They lie in a grid of as few dimensions as keep its sides short, and neighbours
are those that differ in one coordinate. So 500 nodes have 21 neighbours each and are three steps apart; up to 16 nodes
are all neighbours. Nodes with near numbers share a row, the line along the first dimension.
"""

from typing import NamedTuple

# Nodes along one dimension at most: so many are asked twice a second without anybody noticing.
MOST_ALONG = 16
# 16 nodes in each of four dimensions; neighbours of one node are 60 at most then.
MOST_NODES = MOST_ALONG**4
MOST_NEIGHBOURS = 4 * (MOST_ALONG - 1)


class NodeRow(NamedTuple):
    """The line of neighbours along the first dimension: its ``first`` number, and how many nodes there are in it."""

    first: int
    width: int


def neighbours(position: int, nodes: int) -> tuple[int, ...]:
    """Return the numbers of a node's neighbours among ``nodes``, in order. They are as many as MOST_NEIGHBOURS at most.

    Whoever is one's neighbour has one for its neighbour. Steps from one to the other are as many as coordinates differ,
    also where the last row is not full: those that become smaller are taken first.
    """
    side, dimensions = _shape(nodes)
    found: list[int] = []
    for stride in (side**dimension for dimension in range(dimensions)):
        first = position - position // stride % side * stride
        line = range(first, min(nodes, first + side * stride), stride)
        found += [other for other in line if other != position]
    return tuple(sorted(found))


def row_of(position: int, nodes: int) -> NodeRow:
    """Return the row that a node is in."""
    side, _ = _shape(nodes)
    first = position // side * side
    return NodeRow(first, min(nodes - first, side))


def _shape(nodes: int) -> tuple[int, int]:
    """Return the nodes along a side, and the number of dimensions. Raises ValueError for too many nodes."""
    if not 0 < nodes <= MOST_NODES:
        raise ValueError(f"{nodes} nodes: between 1 and {MOST_NODES} may divide what is cold")
    dimensions = next(count for count in range(1, 5) if MOST_ALONG**count >= nodes)
    return next(side for side in range(1, MOST_ALONG + 1) if side**dimensions >= nodes), dimensions

"""Which of many nodes fetches a piece of a cold version from its source, where each knows its neighbours alone. Pure.

As in division.py, with which up to 16 nodes do the same: neighbouring files make groups, which take turns by number
among all nodes. What is whole spreads from neighbour to neighbour (bench.herd.grid). A node that does not get on is
seen by its neighbours; those in its row divide its share. Where nothing arrives any more, at each level twice as many
nodes ask the source, so that never many of them ask for one thing at the same time. The product has a tree of groups
(stoker_operator.core.neighbourhoods); this stands beside it.
"""

from collections.abc import Collection, Iterable

from bench.herd.grid import row_of
from stoker_sidecar.fetcher.core.division import OWN, DividedFile

# Turns of this node's row, of which each node has those that are its place by the width of the row; then those of all
# others, by the bits of the number of nodes that this one is behind theirs.
_ROW_TURNS, MOST_LEVEL = 224, 15
# Of one group at most, as in division.py; and fewer files where there would be few groups a node: shares are even.
_GROUP_FILES, _GROUP_BYTES = 16, 2**20
_GROUPS_A_NODE = 4


def grid_turns(files: Iterable[DividedFile], last_ino: int, count: int, position: int, nodes: int) -> bytearray:
    """Give each inode up to ``last_ino`` its turn, as the node at ``position`` sees it; ``count``: of all files."""
    row = row_of(position, nodes)
    most_files = max(1, min(_GROUP_FILES, count // (nodes * _GROUPS_A_NODE)))
    found = bytearray([OWN]) * (last_ino + 1)
    group, held, size = 0, 0, 0
    for file in files:
        if not file.provable:
            continue
        if held >= most_files or size + file.size > _GROUP_BYTES:
            group, held, size = group + (held > 0), 0, 0
        owner, round_ = group % nodes, group // nodes
        place = owner - row.first
        if 0 <= place < row.width:
            found[file.ino] = place + row.width * (round_ % (_ROW_TURNS // row.width))
        else:
            found[file.ino] = _ROW_TURNS - 1 + min(MOST_LEVEL, ((position - owner) % nodes).bit_length())
        held, size = held + 1, size + file.size
    return found


def grid_takes(position: int, nodes: int, alive: Collection[int], level: int = 0) -> bytes:
    """Return by turn 1 where a node fetches from the source.

    What a node of its row that is not ``alive`` would fetch is divided among the row's others. ``level``: 0 while
    something arrives; of the shares of nodes in other rows it takes those of the 2**level - 1 numbers before its own.
    """
    row = row_of(position, nodes)
    left = sorted(at for at in range(row.first, row.first + row.width) if at == position or at in alive)

    def owner(turn: int) -> int:
        first = row.first + turn % row.width
        return first if first in left else left[turn // row.width % len(left)]

    mine = bytes(owner(turn) == position for turn in range(_ROW_TURNS // row.width * row.width))
    far = bytes(bits <= level for bits in range(1, MOST_LEVEL + 1))
    return (mine.ljust(_ROW_TURNS, b"\0") + far).ljust(OWN, b"\0") + b"\1"

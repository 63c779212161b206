"""Which of several nodes fetches a file of a cold version from its source, and who gives it to the others. Pure.

Files are gathered into small groups of neighbours, which take turns by number. So all nodes go through the version side
by side, and each finds with the others what it left to them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

# Turns, one of which each group has: a number that 2 to 6, 8, 10, 12, 15 and 16 nodes divide evenly.
_TURNS = 240
# The turn of files that each node fetches by itself.
OWN = 255
# Of one group: so many that a thousand files make many groups, so few that a reader in order meets both nodes.
_GROUP_FILES, _GROUP_BYTES = 16, 2**20
# An answer of another node may unpack to so many bytes more than there are inodes: none.
_IS_ONE = bytes(int(one == 1) for one in range(256))


class DividedFile(NamedTuple):
    """A file: ``provable``: the source says what its bytes must be, so that another node's can be believed."""

    ino: int
    size: int
    provable: bool


def turns(files: Iterable[DividedFile], last_ino: int, total: int, nodes: int) -> bytearray:
    """Give each inode up to ``last_ino`` its turn; ``total``: bytes of all files.

    A file that is much of the whole is fetched by each: the others would wait for it, and then once more as long.
    """
    found = bytearray([OWN]) * (last_ino + 1)
    group, count, size = 0, 0, 0
    for file in files:
        if not file.provable or file.size * 2 * nodes > total:
            continue
        if count >= _GROUP_FILES or size + file.size > _GROUP_BYTES:
            group, count, size = group + (count > 0), 0, 0
        found[file.ino] = group % _TURNS
        count, size = count + 1, size + file.size
    return found


def takes(position: int, nodes: int, alive: Collection[int]) -> bytes:
    """Return by turn 1 where the node at ``position`` of ``nodes`` fetches from the source.

    What a node that is not ``alive`` would fetch is divided among the others.
    """
    left = sorted({*alive, position})
    owners = (turn % nodes if turn % nodes in left else left[turn // nodes % len(left)] for turn in range(_TURNS))
    mine = bytes(owner == position for owner in owners)
    return mine.ljust(OWN, b"\0") + b"\1"


class Wanted(NamedTuple):
    """A byte an inode each, 1 where a file is to be fetched: from the source, or from another node. Some wait."""

    from_source: bytes
    from_others: bytes


def wanted(turn_of: bytes, takes_turn: bytes, havings: Iterable[bytes]) -> Wanted:
    """Decide for each inode; ``havings``: what the others have, a byte an inode."""
    length = len(turn_of)
    shared = int.from_bytes(turn_of.translate(bytes(int(turn != OWN) for turn in range(256))))
    had = 0
    for having in havings:
        had |= int.from_bytes(having[:length].ljust(length, b"\0").translate(_IS_ONE))
    had &= shared
    mine = int.from_bytes(turn_of.translate(takes_turn)) & ~had
    return Wanted(mine.to_bytes(length), had.to_bytes(length))


class PeerProgress:
    """Whether the others get on. ``patience``: seconds for which one that does not is waited for.

    ``now``: seconds of any clock.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._last: dict[str, tuple[int, float]] = {}

    def told(self, peer: str, arrived: int, now: float) -> None:
        """Note how many bytes came to a node so far; -1: it did not say. Fewer: it was started again."""
        before, _ = self._last.setdefault(peer, (-1, now))
        if arrived not in (before, -1):
            self._last[peer] = arrived, now

    def alive(self, peers: Mapping[int, str], now: float) -> Iterator[int]:
        """Yield the positions of those that got on lately."""
        for position, peer in peers.items():
            if now - self._last.get(peer, (-1, now))[1] <= self._patience:
                yield position

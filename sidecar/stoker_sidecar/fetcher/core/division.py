"""Which of several nodes fetches a file of a cold version from its source, and who gives it to the others. Pure.

Files are gathered into small groups of neighbours, which take turns by number; of a large file each piece has its own
turn. So all nodes go through the version side by side, and each finds with the others what it left to them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from stoker_sidecar.version.part_files import PIECE

# Turns, one of which each group has: a number that 2 to 6, 8, 10, 12, 15 and 16 nodes divide evenly.
_TURNS = 240
_EACH_TURN = bytes(range(_TURNS))
# The turn of files that each node fetches by itself, and of those whose pieces have turns.
OWN, PIECES = 255, 254
# Of one group: so many that a thousand files make many groups, so few that a reader in order meets both nodes.
_GROUP_FILES, _GROUP_BYTES = 16, 2**20
# Bytes of a file that always goes in pieces, and parts of the whole of which one is not waited for as one.
_LARGE, _SHARES = 64 * 2**20, 256
# What a node says of a piece: it can be had there, or its source is sending it.
HAD, COMING = 1, 2
_IS_ONE = bytes(int(one == HAD) for one in range(256))
_IS_TAKEN = bytes(int(one in (HAD, COMING)) for one in range(256))
_IS_SHARED = bytes(int(turn not in (OWN, PIECES)) for turn in range(256))


class DividedFile(NamedTuple):
    """A file: ``provable``: the source says what its bytes must be, so that another node's can be believed."""

    ino: int
    size: int
    provable: bool


def turns(files: Iterable[DividedFile], last_ino: int, total: int) -> bytearray:
    """Give each inode up to ``last_ino`` its turn; ``total``: bytes of all files.

    A large file, and one that is much of the whole, goes in pieces: the others would wait for it, and then once more as
    long.
    """
    found = bytearray([OWN]) * (last_ino + 1)
    group, count, size = 0, 0, 0
    for file in files:
        if not file.provable:
            continue
        if file.size > PIECE and (file.size > _LARGE or file.size * _SHARES > total):
            found[file.ino] = PIECES
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
    """A byte an inode, or a piece, 1 where it is to be fetched: from the source, or from another node. Some wait."""

    from_source: bytes
    from_others: bytes


def wanted(
    turn_of: bytes,
    takes_turn: bytes,
    havings: Iterable[bytes],
    upstream: Iterable[bytes] = (),
    *,
    waits: bool = False,
) -> Wanted:
    """Decide for each inode; ``havings``: what the others have, a byte an inode.

    ``upstream``: what those have that stand before the source: of them only that is taken which this node would fetch
    there, since each of them is asked by several. ``waits``: the rest comes to them yet. Files that go in pieces are
    neither.
    """
    length = len(turn_of)
    shared = int.from_bytes(turn_of.translate(_IS_SHARED))
    mine = int.from_bytes(turn_of.translate(takes_turn))
    had = _union(havings, length) & shared
    above = _union(upstream, length) & shared & mine & ~had
    mine &= ~(had | above)
    return Wanted((mine & ~shared if waits else mine).to_bytes(length), (had | above).to_bytes(length))


def wanted_pieces(
    ino: int,
    takes_turn: bytes,
    here: bytes,
    havings: Iterable[bytes],
    upstream: Iterable[bytes] = (),
    *,
    refused: bytes = b"",
    waits: bool = False,
) -> Wanted:
    """Decide for each piece of a file, a byte each; see ``wanted``.

    ``here``: those that are here, or on their way. ``refused``: those that another node failed to give.
    """
    length = len(here)
    mine = _pieces_of(ino, length, takes_turn)
    left, own = ~int.from_bytes(here), int.from_bytes(refused[:length].ljust(length, b"\0"))
    had = _union(havings, length) & left & ~own & _all_ones(length)
    above = _union(upstream, length) & left & mine & ~had & ~own
    source = (0 if waits else mine & ~(had | above)) | own
    return Wanted((source & left & _all_ones(length)).to_bytes(length), (had | above).to_bytes(length))


def not_begun(ino: int, takes_turn: bytes, here: bytes, havings: Iterable[bytes]) -> bytes:
    """Return a byte a piece of a file: 1 where the node that ``takes_turn`` is of has not begun to fetch it.

    ``here``: those that are here, or on their way; ``havings``: what all others say of theirs.
    """
    length = len(here)
    left = _pieces_of(ino, length, takes_turn) & ~int.from_bytes(here) & ~_union(havings, length, _IS_TAKEN)
    return (left & _all_ones(length)).to_bytes(length)


def _pieces_of(ino: int, length: int, takes_turn: bytes) -> int:
    begin = ino % _TURNS
    return int.from_bytes((_EACH_TURN * (length // _TURNS + 2))[begin : begin + length].translate(takes_turn))


def _union(havings: Iterable[bytes], length: int, counts: bytes = _IS_ONE) -> int:
    had = 0
    for having in havings:
        # An answer of another node may hold any byte, and unpack to more than there are inodes.
        had |= int.from_bytes(having[:length].ljust(length, b"\0").translate(counts))
    return had


def _all_ones(length: int) -> int:
    return int.from_bytes(b"\1" * length)


# Of its patience, for how long one is waited for that spoke once and does not any more.
_SILENCE = 0.4


class PeerProgress:
    """Whether the others get on. ``patience``: seconds for which one that does not is waited for.

    ``now``: seconds of any clock.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._last: dict[str, tuple[int, float]] = {}
        self._heard: dict[str, float] = {}

    def told(self, peer: str, arrived: int, now: float) -> None:
        """Note how many bytes came to a node so far; -1: it did not say. Fewer: it was started again."""
        before, _ = self._last.setdefault(peer, (-1, now))
        if arrived != -1:
            self._heard[peer] = now
        if arrived not in (before, -1):
            self._last[peer] = arrived, now

    def alive(self, peers: Mapping[int, str], now: float) -> Iterator[int]:
        """Yield the positions of those that got on lately."""
        for position, peer in peers.items():
            if self.gets_on(peer, now):
                yield position

    def gets_on(self, peer: str, now: float) -> bool:
        """Tell whether bytes came to a node lately, as it says itself."""
        if now - self._heard.get(peer, now) > _SILENCE * self._patience:
            return False
        return now - self._last.get(peer, (-1, now))[1] <= self._patience

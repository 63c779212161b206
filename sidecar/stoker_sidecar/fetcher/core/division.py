"""Which of several nodes fetches a file of a cold version from its source, and who gives it to the others. Pure.

Files are gathered into small groups of neighbours, which take turns by number; of a large file each piece has its own
turn. So all nodes go through the version side by side, and each finds with the others what it left to them. Where there
are several groups of nodes (stoker_sidecar.fetcher.core.source_share), each file has a turn of its own, too, in one of
them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, islice
from typing import NamedTuple

from stoker_sidecar.fetcher.core.source_share import ELSEWHERE, TURNS, SourceShare
from stoker_sidecar.version.part_files import PIECE

_EACH_TURN = bytes(range(TURNS))
# The turn of files that each node fetches by itself, and of those whose pieces have turns.
OWN, PIECES = 255, 254
# Of one group: so many that a thousand files make many groups, so few that a reader in order meets both nodes.
_GROUP_FILES, _GROUP_BYTES = 16, 2**20
# Bytes of a file that always goes in pieces, and parts of the whole of which one is not waited for as one.
_LARGE, _SHARES = 64 * 2**20, 256
_ALL = SourceShare()
# What a node says of a piece: it can be had there, or its source is sending it, or another node gave it, and nothing
# proves it yet; or another node is giving it, to which it comes itself.
HAD, COMING, HELD, PASSING = 1, 2, 3, 4
_IS_ONE = bytes(int(one in (HAD, HELD)) for one in range(256))
_IS_TAKEN = bytes(int(one in (HAD, COMING, HELD, PASSING)) for one in range(256))
_IS_SHARED = bytes(int(turn not in (OWN, PIECES)) for turn in range(256))
_IS_TURN = bytes(int(turn < TURNS) for turn in range(256))


class DividedFile(NamedTuple):
    """A file: ``provable``: the source says what its bytes must be, so that another node's can be believed."""

    ino: int
    size: int
    provable: bool


class VersionTurns(NamedTuple):
    """The turn of each inode, and of each piece of those files that go in pieces, by inode."""

    files: bytes
    pieces: Mapping[int, bytes]


def turns(files: Iterable[DividedFile], last_ino: int, total: int, share: SourceShare = _ALL) -> VersionTurns:
    """Give each inode up to ``last_ino`` its turn; ``total``: bytes of all files; ``share``: of this node's group.

    A large file, and one that is much of the whole, goes in pieces: the others would wait for it, and then once more as
    long.
    """
    found, pieces = bytearray([OWN]) * (last_ino + 1), dict[int, bytes]()
    small, parted = _SmallFiles(), share.turns()
    for file in files:
        if not file.provable:
            continue
        if file.size > PIECE and (file.size > _LARGE or file.size * _SHARES > total):
            found[file.ino] = PIECES
            count = -(-file.size // PIECE)
            pieces[file.ino] = _in_turn(file.ino, count) if share.is_all else bytes(islice(parted, count))
        else:
            found[file.ino] = small.turn(file.size) if share.is_all else next(parted)
    return VersionTurns(bytes(found), pieces)


class _SmallFiles:
    """Gathers files that follow each other into groups, which take turns."""

    def __init__(self) -> None:
        self._group = 0
        self._count = 0
        self._size = 0

    def turn(self, size: int) -> int:
        """Return the turn of the next file."""
        if self._count >= _GROUP_FILES or self._size + size > _GROUP_BYTES:
            self._group, self._count, self._size = self._group + (self._count > 0), 0, 0
        self._count, self._size = self._count + 1, self._size + size
        return self._group % TURNS


def _in_turn(ino: int, count: int) -> bytes:
    """Return the turns of a large file's pieces where one group has all: piece n of inode i has turn i + n."""
    begin = ino % TURNS
    return (_EACH_TURN * (count // TURNS + 2))[begin : begin + count]


class Sharers(NamedTuple):
    """Who of a group of ``nodes`` fetches from the source, as the one at ``position`` sees it.

    What a node that is not ``alive`` would fetch is divided among the others. ``alone``: nobody else fetches anything,
    of other groups neither.
    """

    position: int
    nodes: int
    alive: Collection[int]
    alone: bool = False

    def owner(self, turn: int) -> int:
        """Return the position of the node whose a turn is."""
        return _owner(turn, self.nodes, sorted({*self.alive, self.position}))

    def is_mine(self, turn: int) -> bool:
        """Tell whether this node fetches what has a turn."""
        return self.alone or (turn < TURNS and self.owner(turn) == self.position)

    def takes(self) -> bytes:
        """Return by turn 1 where this node fetches."""
        return takes(self.position, self.nodes, self.alive, alone=self.alone)

    def without(self, positions: Collection[int]) -> "Sharers":
        """Return who is left without some of them."""
        return self._replace(alive=frozenset(self.alive) - frozenset(positions))


def _owner(turn: int, nodes: int, left: Sequence[int]) -> int:
    return turn % nodes if turn % nodes in left else left[turn // nodes % len(left)]


def takes(position: int, nodes: int, alive: Collection[int], *, alone: bool = False) -> bytes:
    """Return by turn 1 where the node at ``position`` of ``nodes`` fetches from the source: see Sharers."""
    return _takes(position, nodes, frozenset(alive), alone)


@lru_cache(maxsize=256)  # it is asked for all nodes, each time when it is weighed what is whose
def _takes(position: int, nodes: int, alive: frozenset[int], alone: bool) -> bytes:
    left = sorted({*alive, position})
    mine = bytes(_owner(turn, nodes, left) == position for turn in range(TURNS))
    return mine.ljust(ELSEWHERE, b"\0") + bytes([alone, 0, 1])


class Wanted(NamedTuple):
    """A byte an inode, or a piece, 1 where it is to be fetched: from the source, or from another node. Some wait."""

    from_source: bytes
    from_others: bytes


def wanted(turn_of: bytes, takes_turn: bytes, havings: Iterable[bytes]) -> Wanted:
    """Decide for each inode; ``havings``: what the others have, a byte an inode.

    Files that go in pieces are neither.
    """
    length = len(turn_of)
    shared = int.from_bytes(turn_of.translate(_IS_SHARED))
    had = _union(havings, length) & shared
    mine = int.from_bytes(turn_of.translate(takes_turn)) & ~had
    return Wanted(mine.to_bytes(length), had.to_bytes(length))


def had_by(marks: bytes, havings: Iterable[bytes]) -> tuple[bytes, bytes]:
    """Divide marked inodes into those that one of the ``havings`` has, and the others."""
    length, marked = len(marks), int.from_bytes(marks)
    had = marked & _union(havings, length)
    return had.to_bytes(length), (marked & ~had).to_bytes(length)


def wanted_pieces(
    turn_of: bytes, takes_turn: bytes, here: bytes, havings: Iterable[bytes], *, refused: bytes = b""
) -> Wanted:
    """Decide for each piece of a file, a byte each; see ``wanted``.

    ``here``: those that are here, or on their way. ``refused``: those that another node failed to give.
    """
    length = len(here)
    mine = _marked_turns(turn_of, length, takes_turn)
    left, own = ~int.from_bytes(here), int.from_bytes(refused[:length].ljust(length, b"\0"))
    had = _union(havings, length) & left & ~own & _all_ones(length)
    source = (mine & ~had) | own
    return Wanted((source & left & _all_ones(length)).to_bytes(length), had.to_bytes(length))


def not_begun(turn_of: bytes, takes_turn: bytes, here: bytes, havings: Iterable[bytes]) -> bytes:
    """Return a byte a piece of a file: 1 where the node that ``takes_turn`` is of has not begun to fetch it.

    ``here``: those that are here, or on their way; ``havings``: what all others say of theirs.
    """
    length = len(here)
    left = _marked_turns(turn_of, length, takes_turn) & ~int.from_bytes(here) & ~_union(havings, length, _IS_TAKEN)
    return (left & _all_ones(length)).to_bytes(length)


def turns_to_begin(turn_of: bytes, here: bytes, havings: Iterable[bytes]) -> set[int]:
    """Return the turns of those pieces of a file that nobody of the group has begun to fetch; see ``not_begun``."""
    return set(compress(turn_of, not_begun(turn_of, _IS_TURN, here, havings)))


def _marked_turns(turn_of: bytes, length: int, takes_turn: bytes) -> int:
    return int.from_bytes(turn_of[:length].ljust(length, bytes([ELSEWHERE])).translate(takes_turn))


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

    def gave(self, peer: str, now: float) -> None:
        """Note that something came from a node: it is there, whatever becomes of its answers."""
        self._heard[peer] = now

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

    def speaks(self, peer: str, now: float) -> bool:
        """Tell whether a node answered lately, or is yet to be heard of: it may wait for the same as this one."""
        heard = self._heard.get(peer, self._last.get(peer, (-1, now))[1])
        return now - heard <= self._patience


def places_of(marks: bytes, mark: int) -> Iterator[int]:
    """Yield where it is: most files have thousands of pieces, and few such."""
    at = marks.find(mark)
    while at >= 0:
        yield at
        at = marks.find(mark, at + 1)

"""Which node fetches each file of a cold version from the source, and which node gives it to its peers. Pure.

Small groups of neighboring files take turns by number. In a large file, each piece has a turn. Nodes go through the
version side by side, and each node gets the rest from its peers. With several groups of nodes
(peers/core/source_share.py), each file also has a turn in one of the groups.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from stoker_sidecar.fetcher.peers.core.source_share import ELSEWHERE, TURNS, SourceShare
from stoker_sidecar.version.layout import PIECE

_EACH_TURN = bytes(range(TURNS))
# The turn of files that each node fetches alone, and of files whose pieces have turns.
OWN, PIECES = 255, 254
# Limits of one group of files. A thousand files make many groups, and an ordered reader still meets both nodes.
_GROUP_FILES, _GROUP_BYTES = 16, 2**20
# Bytes above which a file always goes in pieces, and the divisor of the version's size for a second such limit.
_LARGE, _SHARES = 64 * 2**20, 256
_ALL = SourceShare()
# A node's mark of a piece. HAD: from the source. COMING: the source is sending it. HELD: from another node, unproven.
# Earlier releases also send 4, for a piece on its way from another node. It counts as not there.
HAD, COMING, HELD = 1, 2, 3


def piece_marks(chunks: bytes | bytearray, held: Iterable[int], coming: Iterable[int]) -> bytes:
    """Return this node's marks of a file's pieces. ``chunks``: a byte a piece, 1 where it is here."""
    marks = bytearray(chunks)
    for chunk in held:
        marks[chunk] = HELD
    for chunk in coming:
        if chunk < len(marks):
            marks[chunk] = marks[chunk] or COMING
    return bytes(marks)


_IS_ONE = bytes(int(one in (HAD, HELD)) for one in range(256))
_IS_TAKEN = bytes(int(one in (HAD, COMING, HELD)) for one in range(256))
_IS_SHARED = bytes(int(turn not in (OWN, PIECES)) for turn in range(256))


class DividedFile(NamedTuple):
    """A file. ``provable``: the source states a checksum, so that a copy of a peer can be verified."""

    ino: int
    size: int
    provable: bool


class VersionTurns(NamedTuple):
    """The turn of each inode, and of each piece of large files, by inode."""

    files: bytes
    pieces: Mapping[int, bytes]


def turns(files: Iterable[DividedFile], last_ino: int, total: int, share: SourceShare = _ALL) -> VersionTurns:
    """Give each inode up to ``last_ino`` its turn.

    A large file goes in pieces, and so does a file that is a large share of the version. Otherwise peers wait for the
    file, and then as long again for the copy. ``total``: bytes of all files. ``share``: the part of this node's group.
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
    """Gathers successive files into groups, which take turns."""

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
    """Return the turns of a large file's pieces for a single group: piece n of inode i has turn i + n."""
    begin = ino % TURNS
    return (_EACH_TURN * (count // TURNS + 2))[begin : begin + count]


class PeerSet(NamedTuple):
    """The nodes of a group of ``nodes`` that fetch from the source, as the node at ``position`` sees it.

    The live nodes divide the share of a node that is not ``alive``. ``alone``: no other node fetches anything, in this
    group or in another.
    """

    position: int
    nodes: int
    alive: Collection[int]
    alone: bool = False

    def owner(self, turn: int) -> int:
        """Return the position of the node that owns a turn."""
        return _owner(turn, self.nodes, sorted({*self.alive, self.position}))

    def is_mine(self, turn: int) -> bool:
        """Return True if this node fetches items with this turn."""
        return self.alone or (turn < TURNS and self.owner(turn) == self.position)

    def takes(self) -> bytes:
        """Return a byte a turn: 1 if this node fetches it."""
        return takes(self.position, self.nodes, self.alive, alone=self.alone)

    def without(self, positions: Collection[int]) -> "PeerSet":
        """Return the set without the nodes at these positions."""
        return self._replace(alive=frozenset(self.alive) - frozenset(positions))


def _owner(turn: int, nodes: int, left: Sequence[int]) -> int:
    return turn % nodes if turn % nodes in left else left[turn // nodes % len(left)]


def takes(position: int, nodes: int, alive: Collection[int], *, alone: bool = False) -> bytes:
    """Return a byte a turn: 1 if the node at ``position`` of ``nodes`` fetches it from the source. See PeerSet."""
    return _takes(position, nodes, frozenset(alive), alone)


@lru_cache(maxsize=256)  # each weighing calls it for all nodes
def _takes(position: int, nodes: int, alive: frozenset[int], alone: bool) -> bytes:
    left = sorted({*alive, position})
    mine = bytes(_owner(turn, nodes, left) == position for turn in range(TURNS))
    return mine.ljust(ELSEWHERE, b"\0") + bytes([alone, 0, 1])


class Wanted(NamedTuple):
    """A byte an inode, or a piece: 1 in ``from_source`` or ``from_peers`` if it is fetched there. Some items wait."""

    from_source: bytes
    from_peers: bytes


def wanted(turn_of: bytes, takes_turn: bytes, havings: Iterable[bytes]) -> Wanted:
    """Decide for each inode whether this node fetches it or a peer gives it.

    Files that go in pieces are in neither result. ``havings``: inventories of the peers, a byte an inode.
    """
    length = len(turn_of)
    shared = int.from_bytes(turn_of.translate(_IS_SHARED))
    had = _union(havings, length) & shared
    mine = int.from_bytes(turn_of.translate(takes_turn)) & ~had
    return Wanted(mine.to_bytes(length), had.to_bytes(length))


def had_by(marks: bytes, havings: Iterable[bytes]) -> tuple[bytes, bytes]:
    """Divide marked inodes into those that one of the ``havings`` contains, and the rest."""
    length, marked = len(marks), int.from_bytes(marks)
    had = marked & _union(havings, length)
    return had.to_bytes(length), (marked & ~had).to_bytes(length)


def wanted_pieces(
    turn_of: bytes, takes_turn: bytes, here: bytes, havings: Iterable[bytes], *, refused: bytes = b""
) -> Wanted:
    """Decide for each piece of a file, a byte each; see ``wanted``.

    ``here``: pieces that are here, or on their way. ``refused``: pieces that a peer failed to give.
    """
    length = len(here)
    mine = _marked_turns(turn_of, length, takes_turn)
    left, own = ~int.from_bytes(here), int.from_bytes(refused[:length].ljust(length, b"\0"))
    had = _union(havings, length) & left & ~own & _all_ones(length)
    source = (mine & ~had) | own
    return Wanted((source & left & _all_ones(length)).to_bytes(length), had.to_bytes(length))


def not_begun(turn_of: bytes, takes_turn: bytes, here: bytes, havings: Iterable[bytes]) -> bytes:
    """Return a byte for each piece of a file: 1 if the node of ``takes_turn`` has yet to begin to fetch it.

    ``here``: pieces that are here or on their way. ``havings``: the piece maps of all peers.
    """
    length = len(here)
    left = _marked_turns(turn_of, length, takes_turn) & ~int.from_bytes(here) & ~_union(havings, length, _IS_TAKEN)
    return (left & _all_ones(length)).to_bytes(length)


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


# Share of the timeout granted to a peer that went silent.
_SILENCE = 0.4


class PeerProgress:
    """Progress of the peers. ``patience``: seconds that this node waits for a peer that makes no progress.

    ``now``: seconds of any clock.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._last: dict[str, tuple[int, float]] = {}
        self._heard: dict[str, float] = {}

    def told(self, peer: str, arrived: int, now: float) -> None:
        """Note the bytes that a node has received. -1: it gave no number. A smaller number means a restart."""
        before, _ = self._last.setdefault(peer, (-1, now))
        if arrived != -1:
            self._heard[peer] = now
        if arrived not in (before, -1):
            self._last[peer] = arrived, now

    def gave(self, peer: str, now: float) -> None:
        """Note that something came from a node. It is up, even if it does not answer queries."""
        self._heard[peer] = now

    def alive(self, peers: Mapping[int, str], now: float) -> Iterator[int]:
        """Yield the positions of peers that made progress lately."""
        for position, peer in peers.items():
            if self.gets_on(peer, now):
                yield position

    def gets_on(self, peer: str, now: float) -> bool:
        """Return True if the node reported new bytes lately."""
        if now - self._heard.get(peer, now) > _SILENCE * self._patience:
            return False
        return now - self._last.get(peer, (-1, now))[1] <= self._patience

    def speaks(self, peer: str, now: float) -> bool:
        """Return True if a node answered lately, or has had no time to answer.

        It may wait for the same thing as this node.
        """
        heard = self._heard.get(peer, self._last.get(peer, (-1, now))[1])
        return now - heard <= self._patience


def places_of(marks: bytes, mark: int) -> Iterator[int]:
    """Yield the positions of a mark. Most files have thousands of pieces and few matches."""
    at = marks.find(mark)
    while at >= 0:
        yield at
        at = marks.find(mark, at + 1)

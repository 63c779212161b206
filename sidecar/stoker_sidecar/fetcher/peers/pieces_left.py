"""The missing pieces of large files, and whether each comes from the source or from another node.

Other nodes may fetch a piece, or have yet to fetch it. No piece is fetched twice.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.warming import MarkedOrder
from stoker_sidecar.fetcher.ondisk.choosing import ChosenOrder
from stoker_sidecar.fetcher.ondisk.parts import CHUNK, chunk_count
from stoker_sidecar.fetcher.peers.core.division import (
    COMING,
    PIECES,
    PeerSet,
    VersionTurns,
    Wanted,
    not_begun,
    places_of,
    takes,
    wanted_pieces,
)
from stoker_sidecar.fetcher.peers.core.failed_peer_fetches import ComesFrom
from stoker_sidecar.fetcher.peers.core.source_share import ELSEWHERE, helped
from stoker_sidecar.fetcher.peers.node_division import PATIENCE, Division
from stoker_sidecar.fetcher.peers.peer_client import Having
from stoker_sidecar.fetcher.peers.peer_file_fetcher import PeerFileFetcher
from stoker_sidecar.fetcher.peers.peer_requests import PeerRequest, WishKey
from stoker_sidecar.version.manifest import Entry

# Number of pieces that a search collects. The last of them is far enough from the first.
_ENOUGH = 64
# Smallest piece, in bytes, that another node helps with. A smaller piece ends before all peers hear that it begins, so
# that the piece behind it is not the next one for them.
_LEAST = CHUNK // 2


@dataclass
class PeerSharePlan:
    """The shares of the nodes that divide a version with this one. ``clock``: seconds.

    ``havings`` everywhere: inventories of the nodes that make progress, by host:port.
    """

    division: Division
    clock: Callable[[], float]
    _claimed: dict[WishKey, float] = field(default_factory=dict)  # when a node first reported a piece as coming

    def coming(self, entry: Entry, havings: Mapping[str, Having]) -> list[bool]:
        """Return for each piece of a file whether its source sends it to another node.

        This node believes such a report for a limited time only, because it waits for that node.
        """
        now, count = self.clock(), chunk_count(entry.size)
        found = [False] * count
        for having in havings.values():
            for chunk in places_of(having.of(entry.ino, count)[:count], COMING):
                found[chunk] = now - self._claimed.setdefault((entry.ino, chunk), now) < PATIENCE
        return found

    def yet_to_begin(
        self,
        entries: Iterable[Entry],
        turns: Mapping[int, bytes],
        here: Callable[[Entry], bytes],
        havings: Mapping[str, Having],
        is_believed: Callable[[str], bool],
    ) -> PeerRequest | None:
        """Return a piece that its node has yet to request from the source, for another node. None: too few are left.

        It is one of the last of the ``entries``, since its node starts with the first. ``turns``: of pieces, by inode.
        ``here``: of a file, a byte a piece, 1 if it is here or on its way. ``is_believed``: returns True for a node
        whose report is enough. A node may already have a piece that it reports as not begun.
        """
        peers = {at: peer for at, peer in self.division.others.items() if peer in havings}
        nodes, alive = len(self.division.peers) + 1, {*peers, self.division.position}
        shares = {at: takes(at, nodes, alive) for at, peer in peers.items() if is_believed(peer)}
        left: dict[int, list[PeerRequest]] = {at: [] for at in shares}
        for entry in entries:
            count, at_hand = chunk_count(entry.size), here(entry)
            said = [having.of(entry.ino, count) for having in havings.values()]
            for at, share in shares.items():
                marked = not_begun(turns.get(entry.ino, b""), share, at_hand, said)
                wishes = (PeerRequest(entry, chunk) for chunk in places_of(marked, 1))
                left[at] += (wish for wish in wishes if wish.span[1] >= _LEAST)
            if max(map(len, left.values()), default=0) >= _ENOUGH:
                break
        chosen = helped({at: len(wishes) for at, wishes in left.items()}, self.division.position, nodes)
        return left[chosen[0]][-chosen[1]] if chosen is not None else None


def left_of(fetching: Fetching, marks: bytes, begin: float = 0.0) -> Iterator[Entry]:
    """Yield the marked files that are to be warmed and missing: path by path, or else by rank.

    ``begin``: the start in each rank, as a part of all inodes. Earlier inodes come last.
    """
    version, tuning = fetching.version, fetching.tuning
    if version.chosen.selection is not None:
        yield from ChosenOrder(version, version.chosen.selection, marks)
        return
    at = int(begin * len(marks))
    for rank in tuning.ranks:
        of_rank = int.from_bytes(tuning.of_rank(rank, version.manifest.last_ino)) & int.from_bytes(marks)
        ranked = of_rank.to_bytes(len(marks))
        yield from MarkedOrder(version, bytes(at) + ranked[at:])
        if at:
            yield from MarkedOrder(version, ranked[:at].ljust(len(marks), b"\0"))


_ARE_PIECES = bytes(int(turn == PIECES) for turn in range(256))
_IS_NOT = bytes(int(one == 0) for one in range(256))


@dataclass(frozen=True)
class PiecesLeft:
    """The pieces, as of one assignment to nodes.

    ``sharers``: the nodes that fetch from the source. ``takes``: a byte a turn, 1 if this node fetches it. ``alive``:
    nodes that make progress, by host:port.
    """

    fetching: Fetching
    turns: VersionTurns
    sharers: PeerSet
    takes: bytes
    alive: Collection[str]
    others: PeerSharePlan
    copies: PeerFileFetcher

    def own(self) -> Iterator[PeerRequest]:
        """Yield the pieces that come from the source."""
        for entry in self._files():
            yield from (PeerRequest(entry, chunk) for chunk in _marked(self._wanted(entry).from_source))

    def given(self) -> Iterator[PeerRequest]:
        """Yield the pieces that come from other nodes. Each node begins at a different place in a file."""
        begin = self.others.division.begin
        for entry in self._files(begin):
            marked = self._wanted(entry).from_peers
            at = int(begin * len(marked))
            yield from (PeerRequest(entry, chunk) for chunk in _marked(marked, at))
            yield from (PeerRequest(entry, chunk) for chunk in _marked(marked[:at]))

    def yet_to_begin(self, most: int) -> PeerRequest | None:
        """Return a piece that another node has yet to fetch, in the first ``most`` files. None: too few are left."""
        files, is_believed = islice(self._files(), most), self.fetching.context.givers.is_believed
        return self.others.yet_to_begin(files, self.turns.pieces, self._here, self._near(), is_believed)

    def _files(self, begin: float = 0.0) -> Iterator[Entry]:
        """Yield the missing files to warm that go in pieces, in order."""
        return left_of(self.fetching, self.turns.files.translate(_ARE_PIECES), begin)

    def _wanted(self, entry: Entry) -> Wanted:
        count, part = chunk_count(entry.size), self.fetching.version.parts.get(entry.ino)
        if part is not None and part.complete and not (part.promoting or self.copies.downloads.settles(entry)):
            return Wanted(_first(part.chunks), b"")  # not moved into the tree; a new request moves it
        here, coming = self._here(entry), self.others.coming(entry, self._near())
        believed = self.copies.downloads.believes(entry)
        for chunk, (gift, _) in tuple(part.replaced.items()) if part is not None else ():  # a thread changes it
            self.copies.doubted((entry.ino, chunk), gift.giver)
        doubted = part.doubted if part is not None else ()
        refused = bytes(int(not believed or chunk in doubted) for chunk in range(count))
        asked = self.fetching.context.givers.may_ask_pieces
        havings = [having.of(entry.ino, count) for peer, having in self.copies.having.by_peer.items() if asked(peer)]
        turn_of = self.turns.pieces.get(entry.ino, b"")
        found = wanted_pieces(turn_of, self.takes, here, havings, refused=refused)
        found = self._but_for_failed(entry, turn_of, bytes(map(max, here, refused)), found)
        return found._replace(
            from_source=bytes(one & (not told) for one, told in zip(found.from_source, coming, strict=True))
        )

    def _but_for_failed(self, entry: Entry, turn_of: bytes, settled: bytes, found: Wanted) -> Wanted:
        """Change the decision for pieces that a node failed to give, unless they are ``settled``."""
        source, others = bytearray(found.from_source), bytearray(found.from_peers)
        for chunk in _marked(settled.translate(_IS_NOT)):
            if self.copies.has_failed((entry.ino, chunk)):
                turn = turn_of[chunk] if chunk < len(turn_of) else ELSEWHERE
                where = self.copies.comes_from((entry.ino, chunk), turn, self.sharers)
                source[chunk], others[chunk] = where is ComesFrom.SOURCE, where is ComesFrom.OTHERS
        return Wanted(bytes(source), bytes(others))

    def _here(self, entry: Entry) -> bytes:
        """Return a byte a piece: 1 where it is here or on its way."""
        part = self.fetching.version.parts.get(entry.ino)
        here = bytearray(part.there if part is not None and part.kept else bytes(chunk_count(entry.size)))
        for chunk in range(len(here)):
            here[chunk] |= self.copies.is_coming((entry.ino, chunk)) or self.fetching.is_on_its_way(entry.ino, chunk)
        return bytes(here)

    def _near(self) -> dict[str, Having]:
        """Return the inventories of nodes that make progress."""
        return {peer: having for peer, having in self.copies.having.by_peer.items() if peer in self.alive}


def _marked(marks: bytes, begin: int = 0) -> Iterator[int]:
    chunk = marks.find(1, begin)
    while chunk >= 0:
        yield chunk
        chunk = marks.find(1, chunk + 1)


def _first(chunks: bytearray) -> bytes:
    """Mark one piece that is here, or the first if none is."""
    at = max(0, chunks.find(1))
    return bytes(at) + b"\1"

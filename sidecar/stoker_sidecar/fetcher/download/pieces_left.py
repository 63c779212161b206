"""The pieces of large files that are still to come, and whether from the source or from another node."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from stoker_sidecar.fetcher.core.division import PIECES, Sharers, VersionTurns, Wanted, turns_to_begin, wanted_pieces
from stoker_sidecar.fetcher.core.failed_gifts import ComesFrom
from stoker_sidecar.fetcher.core.source_share import ELSEWHERE
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.given_copies import GivenCopies
from stoker_sidecar.fetcher.download.left_order import left_of
from stoker_sidecar.fetcher.download.neighbours import Having
from stoker_sidecar.fetcher.download.others_shares import OthersShares
from stoker_sidecar.fetcher.download.parts import chunk_count
from stoker_sidecar.fetcher.download.wishes import Wish
from stoker_sidecar.version.manifest import Entry

# Files of which it is looked who has yet to begin with a piece: mostly the first one tells of all.
_LOOKED_AT = 128
_ARE_PIECES = bytes(int(turn == PIECES) for turn in range(256))
_IS_NOT = bytes(int(one == 0) for one in range(256))


@dataclass(frozen=True)
class PiecesLeft:
    """The pieces by one decision what is whose.

    ``sharers``: who fetches from the source; ``takes``: by turn, 1 where this node does. ``alive``: those that get on,
    by host:port.
    """

    fetching: Fetching
    turns: VersionTurns
    sharers: Sharers
    takes: bytes
    alive: Collection[str]
    others: OthersShares
    copies: GivenCopies

    def own(self) -> Iterator[Wish]:
        """Yield those that are to come from the source."""
        for entry in self._files():
            yield from (Wish(entry, chunk) for chunk in _marked(self._wanted(entry).from_source))

    def given(self) -> Iterator[Wish]:
        """Yield those that are to come from other nodes; each node begins elsewhere in a file."""
        begin = self.others.division.begin
        for entry in self._files(begin):
            marked = self._wanted(entry).from_others
            at = int(begin * len(marked))
            yield from (Wish(entry, chunk) for chunk in _marked(marked, at))
            yield from (Wish(entry, chunk) for chunk in _marked(marked[:at]))

    def yet_to_begin(self, most: int) -> Wish | None:
        """Return one that another node has yet to fetch, in the first ``most`` files; None: there are too few."""
        files, is_believed = islice(self._files(), most), self.fetching.context.givers.is_believed
        return self.others.yet_to_begin(files, self.turns.pieces, self._here, self._near(), is_believed)

    @cached_property
    def to_begin(self) -> set[int]:
        """The positions of those that have yet to ask the source for a piece, as far as the first files tell."""
        found, havings = set[int](), self._near().values()
        for entry in islice(self._files(), _LOOKED_AT):
            said = [having.of(entry.ino, chunk_count(entry.size)) for having in havings]
            left = turns_to_begin(self.turns.pieces.get(entry.ino, b""), self._here(entry), said)
            found |= set(map(self.sharers.owner, left))
            if len(found) > len(self.sharers.alive):
                break
        return found

    def _files(self, begin: float = 0.0) -> Iterator[Entry]:
        """Yield the files that go in pieces, are to be warmed and are missing, in their order."""
        return left_of(self.fetching, self.turns.files.translate(_ARE_PIECES), begin)

    def _wanted(self, entry: Entry) -> Wanted:
        count, part = chunk_count(entry.size), self.fetching.version.parts.get(entry.ino)
        if part is not None and part.complete and not (part.promoting or self.fetching.from_others.settles(entry)):
            return Wanted(_first(part.chunks), b"")  # it was not moved into the tree: asked for once more, it is
        here, coming = self._here(entry), self.others.coming(entry, self._near())
        believed = self.fetching.from_others.believes(entry)
        for chunk, (gift, _) in part.replaced.items() if part is not None else ():
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
        """Decide otherwise of those pieces, of the ones that are not ``settled``, that somebody failed to give."""
        source, others = bytearray(found.from_source), bytearray(found.from_others)
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
        """Return what those have that get on."""
        return {peer: having for peer, having in self.copies.having.by_peer.items() if peer in self.alive}


def _marked(marks: bytes, begin: int = 0) -> Iterator[int]:
    chunk = marks.find(1, begin)
    while chunk >= 0:
        yield chunk
        chunk = marks.find(1, chunk + 1)


def _first(chunks: bytearray) -> bytes:
    """Mark one piece that is here; the first, where none is."""
    at = max(0, chunks.find(1))
    return bytes(at) + b"\1"

"""Pieces that come to other nodes from the source, taken from there while they come.

Only what the source itself sends there: so a wrong piece is always the word of the node that gave it, as it is of a
whole one. A relay that ends too soon is nobody's fault: the piece is asked for anew once it is whole somewhere. A node
whose relays end so again and again is asked for none any more, in this pass.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

from stoker_sidecar.fetcher.core.cut_through import is_relayed
from stoker_sidecar.fetcher.core.division import COMING, PIECES, VersionTurns
from stoker_sidecar.fetcher.download.given_copies import GivenCopies
from stoker_sidecar.fetcher.download.neighbours import Came
from stoker_sidecar.fetcher.download.parts import chunk_count
from stoker_sidecar.fetcher.download.wishes import Wish, WishKey

# Pieces that come to a node side by side, above which none is taken before it is whole: much is left then, and there is
# enough to give.
_MOST_SIDE_BY_SIDE = 2
# Relays of one node that ended too soon, one after the other, after which it is asked for none.
_MOST_CUT = 2


@dataclass
class Relays:
    """What is taken of others while it comes to them. ``copies``: what this node asks others for."""

    copies: GivenCopies
    _asked: set[tuple[WishKey, str]] = field(default_factory=set)  # once each
    _cut: Counter[str] = field(default_factory=Counter)

    def next(self, turns: VersionTurns, alive: Collection[str], *, fetching: bool) -> tuple[Wish, str] | None:
        """Return the next piece to be taken so, and of whom; None: there is none.

        ``alive``: those that get on, by host:port; ``fetching``: the source sends something to this node, too.
        """
        division = self.copies.having.division
        others = {at: peer for at, peer in division.others.items() if peer in alive}
        coming = {at: found for at, peer in others.items() if (found := self._coming(peer))}
        nodes, sent_to = len(division.peers) + 1, len(coming) + fetching
        for at, keys in coming.items():
            peer = others[at]
            if len(keys) > _MOST_SIDE_BY_SIDE or not is_relayed(at, division.position, nodes, sent_to):
                continue
            for key in keys if self._may_ask(peer) else ():
                if (key, peer) not in self._asked and (wish := self._wish(*key, turns)) is not None:
                    self._asked.add((key, peer))
                    return wish, peer
        return None

    def ended(self, giver: str, came: Came) -> None:
        """Note what became of a relay. One that was not taken up, or not needed any more, says nothing of its node."""
        if came is Came.WHOLE:
            del self._cut[giver]
        elif came in (Came.NOTHING, Came.ABSENT):
            self._cut[giver] += 1

    def _coming(self, peer: str) -> list[tuple[int, int]]:
        """Return the pieces that come to a node, or the first few: what it says may hold any number."""
        having = self.copies.having.by_peer.get(peer)
        maps = having.pieces.items() if having is not None else ()
        return list(
            islice(((ino, chunk) for ino, one in maps for chunk in _places(one.pieces)), _MOST_SIDE_BY_SIDE + 1)
        )

    def _may_ask(self, peer: str) -> bool:
        givers = self.copies.fetching.context.givers
        believed = givers.may_ask_pieces(peer) and givers.doubt(peer) == 0
        return believed and self._cut[peer] < _MOST_CUT and not self.copies.gives(peer)

    def _wish(self, ino: int, chunk: int, turns: VersionTurns) -> Wish | None:
        """Return the piece where it is to be warmed here, goes in pieces, and is neither here nor on its way."""
        fetching = self.copies.fetching
        version, selection = fetching.version, fetching.version.chosen.selection
        if turns.files[ino : ino + 1] != bytes([PIECES]) or not version.is_missing(ino):
            return None
        entry = version.manifest.entry(ino)
        wanted = selection is None or selection.chooses(ino)
        if entry is None or not wanted or chunk >= chunk_count(entry.size) or not fetching.from_others.believes(entry):
            return None
        part = version.parts.get(ino)
        if part is not None and (part.there[chunk] or chunk in part.doubted):
            return None
        key = ino, chunk
        under_way = self.copies.is_coming(key) or fetching.is_on_its_way(ino, chunk)
        return None if under_way or self.copies.has_failed(key) else Wish(entry, chunk)


def _places(marks: bytes) -> Iterator[int]:
    at = marks.find(COMING)
    while at >= 0:
        yield at
        at = marks.find(COMING, at + 1)

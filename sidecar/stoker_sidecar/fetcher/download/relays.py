"""Pieces that come to other nodes from the source, taken from there while they come.

From the node to which the source sends it, or from one that passes it on, which is not believed to have it at first
hand, as with pieces that are whole. A relay that ends too soon is nobody's fault: the piece is asked for anew once it
is whole somewhere. A node whose relays end so again and again is asked for none any more, in this pass.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from stoker_sidecar.fetcher.core.cut_through import side_by_side_with, way_of
from stoker_sidecar.fetcher.core.division import COMING, PIECES, VersionTurns, places_of
from stoker_sidecar.fetcher.download.given_copies import GivenCopies
from stoker_sidecar.fetcher.download.neighbours import Came
from stoker_sidecar.fetcher.download.parts import chunk_count
from stoker_sidecar.fetcher.download.pieces_left import PiecesLeft
from stoker_sidecar.fetcher.download.policy import DownloadKey
from stoker_sidecar.fetcher.download.wishes import Wish

# Pieces that come to a node side by side, above which none is taken before it is whole: much is left then, and there is
# enough to give.
_MOST_SIDE_BY_SIDE = 2
# Relays of one node at a time: of what the source sends it next, too, before the last one is at its end.
_MOST_AT_ONCE = 2
# Relays of one node that ended too soon, one after the other, after which it is asked for none.
_MOST_CUT = 2
# Seconds after which a node is passed over that does not have a piece that it was to pass on.
_PATIENCE = 1.0


class Relay(NamedTuple):
    """A piece to be taken of ``giver``, host:port, to which it comes; ``passing``: others take it from here then."""

    wish: Wish
    giver: str
    passing: bool


@dataclass
class Relays:
    """What is taken of others while it comes to them. ``copies``: what this node asks others for."""

    copies: GivenCopies
    _asked: set[tuple[DownloadKey, str]] = field(default_factory=set)  # once each
    _cut: Counter[str] = field(default_factory=Counter)
    _since: dict[DownloadKey, float] = field(default_factory=dict)  # when what comes to somebody began

    def next(self, left: PiecesLeft, own: Collection[DownloadKey]) -> Relay | None:
        """Return the next piece to be taken so; None: there is none. ``own``: what the source sends to this node."""
        division = self.copies.having.division
        others = {at: peer for at, peer in division.others.items() if peer in left.alive}
        coming = {at: found for at, peer in others.items() if (found := self._coming(peer))}
        begun = self._begun({**coming, division.position: [*own]} if own else coming)
        for at, keys in coming.items():
            for key in keys if len(keys) <= _MOST_SIDE_BY_SIDE else ():
                together = side_by_side_with(self._since[key], begun, self.copies.clock()) | left.to_begin
                peer = self._giver(key, at, together, others)
                wish = self._wish(*key, left.turns) if peer and (key, peer) not in self._asked else None
                if wish is not None:
                    self._asked.add((key, peer))
                    return Relay(wish, peer, passing=len(together) <= len(others))
        return None

    def _begun(self, coming: Mapping[int, Collection[DownloadKey]]) -> dict[int, float]:
        """Return when the last piece that comes to each node began, as far as was heard of it here."""
        now, before = self.copies.clock(), self._since
        self._since = {key: before.get(key, now) for keys in coming.values() for key in keys}
        return {at: max(self._since[key] for key in keys) for at, keys in coming.items()}

    def _giver(self, key: DownloadKey, first: int, sent_to: Collection[int], others: Mapping[int, str]) -> str:
        """Return who is asked for a piece that the source sends to the node at ``first``; empty: nobody yet."""
        having, position = self.copies.having, self.copies.having.division.position
        way = [others[at] for at in way_of(position, first, sent_to, {*others, position})]
        if self.copies.clock() - self._since[key] < _PATIENCE:
            del way[1:]
        for peer in way:
            said = having.by_peer.get(peer)
            if said is not None and said.relays(*key):
                return peer if self._may_ask(peer) else ""
        return ""

    def ended(self, giver: str, came: Came) -> None:
        """Note what became of a relay. One that was not taken up, or not needed any more, says nothing of its node."""
        if came is Came.WHOLE:
            del self._cut[giver]
        elif came in (Came.NOTHING, Came.ABSENT):
            self._cut[giver] += 1

    def _coming(self, peer: str) -> list[DownloadKey]:
        """Return the pieces that come to a node, or the first few: what it says may hold any number."""
        having = self.copies.having.by_peer.get(peer)
        maps = having.pieces.items() if having is not None else ()
        return list(
            islice(
                ((ino, chunk) for ino, one in maps for chunk in places_of(one.pieces, COMING)), _MOST_SIDE_BY_SIDE + 1
            )
        )

    def _may_ask(self, peer: str) -> bool:
        givers = self.copies.fetching.context.givers
        believed = givers.may_ask_pieces(peer) and givers.doubt(peer) == 0
        return believed and self._cut[peer] < _MOST_CUT and self.copies.given_by(peer) < _MOST_AT_ONCE

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

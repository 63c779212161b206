"""What this node asks others for: who is asked, what is under way from them, and what is left to the source."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf

from stoker_sidecar.fetcher.core.givers import AbleGiver, nearest_giver
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having
from stoker_sidecar.fetcher.download.others_having import OthersHaving
from stoker_sidecar.fetcher.download.wishes import GivenCopy, Wish, WishKey

# Requests to one node at a time: what a node gives at a time to all others together, or the least.
_AT_ONCE, _LEAST_AT_ONCE = 16, 2
# Seconds for which a node that said that it gives as much as it may is asked for what no other has alone.
_BUSY = 1.0
# Times that one node is asked for a file or a piece that does not come, before the source is.
_TRIES = 3


@dataclass
class GivenCopies:
    """Copies of files and pieces that others give. ``ended`` is told of each whether it came. ``clock``: seconds."""

    fetching: Fetching
    having: OthersHaving
    clock: Callable[[], float]
    ended: Callable[[bool], None]
    _copying: dict[WishKey, GivenCopy] = field(default_factory=dict)
    _refused: dict[WishKey, set[str]] = field(default_factory=dict)  # who failed to give it
    _tries: Counter[tuple[WishKey, str]] = field(default_factory=Counter)
    _busy: dict[str, float] = field(default_factory=dict)  # when a node said so last

    def __len__(self) -> int:
        """Count those under way."""
        return len(self._copying)

    def giver(self, wish: Wish, most_pieces: int) -> str | None:
        """Return who has it and is asked for it, the nearest first; empty where nobody is to be asked.

        None: who has it gives this node as much as it may. ``most_pieces``: asked of one node at a time; 0 for as many
        as of files.
        """
        entry, chunk = wish
        if wish.key in self._copying or not self.fetching.version.is_missing(entry.ino):
            return ""
        asked, refused = Counter(copy.giver for copy in self._copying.values()), self._refused.get(wish.key, set())
        givers, division, now = self.fetching.context.givers, self.having.division, self.clock()
        distance_of, by_peer = division.distance_of, self.having.by_peer
        able = [
            AbleGiver(
                peer,
                distance=distance_of.get(peer, 0),
                linked=peer in division.links,
                asked=asked[peer],
                busy=now - self._busy.get(peer, -inf) < _BUSY,
            )
            for peer in division.asked
            if peer in by_peer and peer not in refused and by_peer[peer].has(entry.ino, chunk)
            if chunk is None or givers.may_ask_pieces(peer)
        ]
        if not able:
            return ""
        # Of several that are alike each node asks another one: all nodes know them in the same order.
        able = able[(at := division.position % len(able)) :] + able[:at]
        return nearest_giver(able, self._most(0 if chunk is None else most_pieces))

    def free(self, most_pieces: int = 0) -> list[Having]:
        """Return what those have that may be asked for more: files, or pieces where ``most_pieces`` is not 0."""
        asked, most = Counter(copy.giver for copy in self._copying.values()), self._most(most_pieces)
        return [having for peer, having in self.having.by_peer.items() if asked[peer] < most]

    def ask(self, wish: Wish, giver: str, relay: Callable[[Came], None] | None = None) -> None:
        """Have it come from that node, unless it came meanwhile or the node has nothing any more.

        ``relay``: it still comes to that node; told what became of it, whose failures count nowhere else.
        """
        entry, chunk = wish
        having, neighbours = self.having.by_peer.get(giver), self.having.neighbours
        version, others = self.fetching.version, self.fetching.from_others
        if having is None or neighbours is None or not version.is_missing(entry.ino):
            return
        offset, length = wish.span
        part = "" if having.is_whole(entry.ino) else having.part(entry.ino)
        bring = partial(neighbours.bring, giver, Ask(version.manifest.path_of(entry), offset, length, entry.size, part))
        task = others.start_copy(entry, bring) if chunk is None else others.start_piece(entry, chunk, giver, bring)
        self._copying[wish.key] = GivenCopy.begun(giver, length, self.clock(), task)._replace(relay=relay)
        task.add_done_callback(partial(self._copied, wish.key))

    def is_coming(self, key: WishKey) -> bool:
        """Tell whether another node gives it, and is not overdue."""
        copy = self._copying.get(key)
        return copy is not None and self.clock() < copy.due

    def _most(self, most_pieces: int) -> int:
        """Return how many are asked of one node at a time; 0: as many as of files."""
        most = max(_LEAST_AT_ONCE, _AT_ONCE // max(1, len(self.having.by_peer)))
        return min(most, most_pieces) if most_pieces else most

    def gives(self, peer: str) -> bool:
        """Tell whether a node gives this one anything at the moment."""
        return any(copy.giver == peer for copy in self._copying.values())

    def leave_overdue(self) -> None:
        """Wait no more for what a node failed to give in time."""
        for key, copy in self._copying.items():
            if self.is_coming(key) or copy.task.cancelling():
                continue
            copy.task.cancel()
            if copy.relay is not None:
                copy.relay(Came.NOTHING)
            else:
                self._refused.setdefault(key, set()).add(copy.giver)
                self.fetching.context.givers.failed(copy.giver, late=True)

    def files_left_to_us(self) -> set[int]:
        """Return the inodes of whole files that ``is_left_to_us``."""
        return {ino for ino, chunk in self._refused if chunk is None and self.is_left_to_us(ino, chunk)}

    def is_left_to_us(self, ino: int, chunk: int | None) -> bool:
        """Tell whether somebody failed to give it, and nobody else has it who may be asked."""
        if (refused := self._refused.get((ino, chunk))) is None:
            return False
        givers = self.fetching.context.givers
        may_ask = givers.may_ask if chunk is None else givers.may_ask_pieces
        havings = (having for peer, having in self.having.by_peer.items() if peer not in refused and may_ask(peer))
        return not any(having.has(ino, chunk) for having in havings)

    def _copied(self, key: WishKey, task: "asyncio.Task[Came]") -> None:
        copy = self._copying.pop(key)
        if task.cancelled():  # a reader asked for it
            self.ended(False)
            return
        came = Came.USELESS if task.exception() is not None else task.result()
        self.ended(came is Came.WHOLE)
        if copy.relay is not None:
            copy.relay(came)
        if copy.relay is None or came is Came.WHOLE:
            self._note(key, copy.giver, came)

    def _note(self, key: WishKey, giver: str, came: Came) -> None:
        """Remember how a node gave: who fails is asked for this no more, and less for anything."""
        givers = self.fetching.context.givers
        if came is Came.BUSY:
            self._busy[giver] = self.clock()
            return
        if came is Came.WHOLE:
            givers.gave(giver)
            return
        if came is Came.WRONG:
            givers.was_wrong(giver)
        if came is not Came.USELESS:
            givers.failed(giver)
        self._tries[key, giver] += 1
        if came is not Came.NOTHING or self._tries[key, giver] >= _TRIES:
            self._refused.setdefault(key, set()).add(giver)

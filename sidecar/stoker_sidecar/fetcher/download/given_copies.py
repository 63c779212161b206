"""What this node asks others for: who is asked, what is under way from them, and what is left to the source."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

from stoker_sidecar.fetcher.core.division import Sharers
from stoker_sidecar.fetcher.core.failed_gifts import TRIES, ComesFrom, FailedGifts
from stoker_sidecar.fetcher.core.givers import AbleGiver, Gift, nearest_giver
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.file_batches import FileBatch
from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Having
from stoker_sidecar.fetcher.download.others_having import OthersHaving
from stoker_sidecar.fetcher.download.wishes import GivenCopy, Wish, WishKey
from stoker_sidecar.wire.small_files import MOST_BYTES, MOST_ESCAPED, MOST_QUERY

# Requests to one node at a time: what a node gives at a time to all others together, or the least.
_AT_ONCE, _LEAST_AT_ONCE = 16, 2
# Seconds for which a node that said that it gives as much as it may is asked for what no other has alone.
_BUSY = 1.0
# How many times what came is reckoned as asked for in vain: what was waited for too long, and what no other try mends.
_TRIED = {Came.ABSENT: 1, Came.NOTHING: 1, Came.CUT: 1, Came.WRONG: TRIES, Came.USELESS: TRIES}
_LATE = 2
# Who failed to give the very same before is asked after all others.
_MOST_DOUBTED = 3


@dataclass
class GivenCopies:
    """Copies of files and pieces that others give. ``ended`` is told of each whether it came. ``clock``: seconds."""

    fetching: Fetching
    having: OthersHaving
    clock: Callable[[], float]
    ended: Callable[[bool], None]
    _copying: dict[WishKey, GivenCopy] = field(default_factory=dict)
    _failed: FailedGifts = field(default_factory=FailedGifts)
    _busy: dict[str, float] = field(default_factory=dict)  # when a node said so last

    def __len__(self) -> int:
        """Count those under way."""
        return len(self._copying)

    def taking(self) -> int:
        """Count requests under way but for files of doubted nodes: they are few of each, and mostly none comes."""
        taken = (copy for (_, chunk), copy in self._copying.items() if chunk is not None or not copy.doubted)
        return len({copy.request for copy in taken})

    def giver(self, wish: Wish, most_pieces: int) -> str | None:
        """Return who has it and is asked for it, the nearest first; empty where nobody is to be asked.

        None: who has it gives this node as much as it may. ``most_pieces``: asked of one node at a time; 0 for as many
        as of files.
        """
        entry, chunk = wish
        if wish.key in self._copying or not self.fetching.version.is_missing(entry.ino):
            return ""
        asked = self._asked()
        givers, division, now = self.fetching.context.givers, self.having.division, self.clock()
        distance_of = division.distance_of
        able = [
            AbleGiver(
                peer,
                distance=distance_of.get(peer, 0),
                linked=peer in division.links,
                asked=asked[peer],
                busy=now - self._busy.get(peer, -inf) < _BUSY,
                doubt=_MOST_DOUBTED if self._failed.has_failed(wish.key, peer) else givers.doubt(peer),
            )
            for peer in self._havers(wish.key)
            if self._failed.may_ask(wish.key, peer, now)
        ]
        if not able:
            return ""
        # Of several that are alike each node asks another one: all nodes know them in the same order.
        able = able[(at := division.position % len(able)) :] + able[:at]
        return nearest_giver(able, self._most(0 if chunk is None else most_pieces))

    def free(self, most_pieces: int = 0) -> list[Having]:
        """Return what those have that may be asked for more: files, or pieces where ``most_pieces`` is not 0."""
        asked, most = self._asked(), self._most(most_pieces)
        return [having for peer, having in self.having.by_peer.items() if asked[peer] < most]

    def ask(
        self, wish: Wish, giver: str, relay: Callable[[Came], None] | None = None, *, passing: bool = False
    ) -> None:
        """Have it come from that node, unless it came meanwhile or the node has nothing any more.

        ``relay``: it still comes to that node; told what became of it, whose failures count nowhere else. ``passing``:
        others may have it from here while it comes.
        """
        entry, chunk = wish
        having, neighbours = self.having.by_peer.get(giver), self.having.neighbours
        version, others = self.fetching.version, self.fetching.from_others
        if having is None or neighbours is None or not version.is_missing(entry.ino):
            return
        offset, length = wish.span
        part = "" if having.is_whole(entry.ino) else having.part(entry.ino)
        about = Ask(version.manifest.path_of(entry), offset, length, entry.size, part, passing)
        bring = partial(neighbours.bring, giver, about)
        if chunk is None:
            task = others.start_copy(entry, bring)
        else:
            gift = Gift(giver, having.passes_on(entry.ino, chunk))
            task = others.start_piece(entry, chunk, gift, bring, passing=passing)
        doubt = self.fetching.context.givers.doubt(giver)
        self._copying[wish.key] = GivenCopy.begun(giver, doubt, length, self.clock(), task)._replace(relay=relay)
        task.add_done_callback(partial(self._copied, wish.key))

    def with_others(self, wish: Wish, giver: str, ahead: Iterable[Wish]) -> list[Wish]:
        """Return this wish, and those of the following small files that the same node is asked for by the same request.

        Empty: it is asked for alone, as of a node that does not give several, or failed lately.
        """
        having = self.having.by_peer.get(giver)
        if having is None or having.together == 0 or not self._goes_along(wish, giver):
            return []
        found, size, query = [wish], wish.entry.size, self._query(wish)
        for other in ahead:
            if len(found) == having.together:
                break
            if not having.is_whole(other.entry.ino) or size + other.entry.size > MOST_BYTES:
                continue
            longer = query + self._query(other)
            if longer <= MOST_QUERY and self._goes_along(other, giver) and self.giver(other, 0) == giver:
                found.append(other)
                size, query = size + other.entry.size, longer
        return found if query <= MOST_QUERY else []

    def _query(self, wish: Wish) -> int:
        """Return how many characters of a query its path takes at most."""
        return MOST_ESCAPED * len(self.fetching.version.manifest.path_of(wish.entry).encode()) + len("path=&")

    def _goes_along(self, wish: Wish, giver: str) -> bool:
        """Tell whether a file may be asked for with others: what failed before is asked for alone."""
        small = wish.chunk is None and self.fetching.from_others.takes_small(wish.entry)
        return small and wish.key not in self._failed and self.fetching.context.givers.doubt(giver) == 0

    def ask_together(self, wishes: Sequence[Wish], giver: str) -> None:
        """Have small files come from that node by one request, but for those that came meanwhile."""
        having, neighbours = self.having.by_peer.get(giver), self.having.neighbours
        version = self.fetching.version
        left = [wish for wish in wishes if version.is_missing(wish.entry.ino)]
        if having is None or neighbours is None or not left:
            return
        asks = [Ask(version.manifest.path_of(entry), 0, entry.size, entry.size) for entry, _ in left]
        batch, size = FileBatch(neighbours, giver, asks, self.fetching.context.settings.given), 0
        for place, wish in enumerate(left):
            size += wish.entry.size  # they come one after the other
            task = self.fetching.from_others.start_small(wish.entry, partial(batch.of, place))
            task.add_done_callback(partial(_leave, batch, place))
            copy = GivenCopy.begun(giver, 0, size, self.clock(), task)
            self._copying[wish.key] = copy._replace(request=batch)
            task.add_done_callback(partial(self._copied, wish.key))

    def is_coming(self, key: WishKey) -> bool:
        """Tell whether another node gives it, and is not overdue."""
        copy = self._copying.get(key)
        return copy is not None and self.clock() < copy.due

    def _most(self, most_pieces: int) -> int:
        """Return how many are asked of one node at a time; 0: as many as of files."""
        most = max(_LEAST_AT_ONCE, _AT_ONCE // max(1, len(self.having.by_peer)))
        return min(most, most_pieces) if most_pieces else most

    def given_by(self, peer: str) -> int:
        """Count what a node gives this one at the moment."""
        return self._asked()[peer]

    def _asked(self) -> Counter[str]:
        """Count the requests to each node."""
        return Counter(giver for giver, _ in {(copy.giver, copy.request) for copy in self._copying.values()})

    def leave_overdue(self) -> None:
        """Wait no more for what a node failed to give in time, nor for what was to come behind it."""
        overdue = {
            copy.request: copy.giver
            for key, copy in self._copying.items()
            if not (self.is_coming(key) or copy.task.cancelling())
        }
        for key, copy in self._copying.items():
            if copy.request not in overdue or copy.task.cancelling():
                continue
            copy.task.cancel()
            if copy.relay is not None:
                copy.relay(Came.NOTHING)
                del overdue[copy.request]
            else:
                self._count(key, copy.giver, _LATE)
        for giver in overdue.values():
            self.fetching.context.givers.failed(giver, late=True)

    def failed_files(self) -> list[int]:
        """Return the inodes of missing whole files that somebody failed to give; forgets what came."""
        self._failed.keep(self.fetching.version.is_missing)
        return self._failed.files()

    def has_failed(self, key: WishKey) -> bool:
        """Tell whether somebody failed to give it."""
        return key in self._failed

    def doubted(self, key: WishKey, giver: str) -> None:
        """Have a piece given once more, by who has it from the source: it was in a file that was wrong as a whole."""
        self._failed.doubted(key, giver, self.clock())

    def comes_from(self, key: WishKey, turn: int, sharers: Sharers) -> ComesFrom:
        """Decide for one that somebody failed to give where it comes from; ``turn``: of the file or the piece."""
        who = self.having.division.others.__getitem__
        return self._failed.comes_from(key, turn, sharers, who, self._havers(key), self.clock())

    def _havers(self, key: WishKey) -> list[str]:
        """Return those that say that they have it, and may be asked."""
        givers = self.fetching.context.givers
        may_ask = givers.may_ask if key[1] is None else givers.may_ask_pieces
        has = Having.vouches if self._failed.is_doubted(key) else Having.has
        by_peer = self.having.by_peer
        return [
            peer
            for peer in self.having.division.asked
            if peer in by_peer and has(by_peer[peer], *key) and may_ask(peer)
        ]

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
        """Remember how a node gave: who fails is asked for this later or no more, and less for anything."""
        givers = self.fetching.context.givers
        if came is Came.BUSY:
            self._busy[giver] = self.clock()
            return
        if came is Came.WHOLE:
            givers.gave(giver)
            self.having.division.progress.gave(giver, self.clock())
            return
        if came is Came.WRONG:
            givers.was_wrong(giver)
        if came is Came.ABSENT:
            self.having.was_absent(giver)
        elif came not in (Came.USELESS, Came.CUT):
            givers.failed(giver)
        self._count(key, giver, _TRIED[came], absent=came is Came.ABSENT)

    def _count(self, key: WishKey, giver: str, tries: int, *, absent: bool = False) -> None:
        """Note that it did not come. A file is soon had from the source: each failure counts twice."""
        tries = tries if key[1] is not None or absent else 2 * tries
        self._failed.failed(key, giver, self.clock(), tries=tries, absent=absent)


def _leave(batch: FileBatch, place: int, _: "asyncio.Task[Came]") -> None:
    batch.leave(place)

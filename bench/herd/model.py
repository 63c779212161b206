"""Nodes, their lines and their bucket, event by event: each node warms as DividedPass does. Pure, and seeded."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import compress, count
from typing import NamedTuple

from bench.herd.decisions import NodeDecisions
from bench.herd.shared_line import SharedLine
from stoker_sidecar.fetcher.core.division import OWN, PeerProgress, wanted
from stoker_sidecar.fetcher.download.node_division import PATIENCE

# As in DividedPass: seconds between two looks at the others, at first and later; those in which nothing came at all;
# what is taken from others at a time, and from one of them, or the least.
_LOOK_FIRST, _LOOK, _STUCK = 0.05, 0.5, 3 * PATIENCE
_GIVEN_AT_ONCE, _AT_ONCE, _LEAST_AT_ONCE = 32, 16, 2
# Seconds until what another node is to give is asked of the bucket as well, and bytes a second that it may take beside.
_OVERDUE, _SLOW = 4.0, 2e6
BUCKET = -1


@dataclass(frozen=True)
class Lines:
    """What carries bytes. Rates in bytes a second, of the bucket in all and of a node in each direction.

    ``bucket_delay``, ``node_delay``: seconds until an answer begins. ``slots``: requests of a node to the bucket.
    """

    bucket: float
    node: float
    bucket_delay: float = 0.02
    node_delay: float = 0.001
    slots: int = 16


@dataclass(frozen=True)
class HerdOutcome:
    """What came of it. ``gets``: requests at the bucket, by node; ``seconds``: until the last that lives had it all."""

    gets: tuple[int, ...]
    seconds: float


class _Sent(NamedTuple):
    """A piece on its way to a node. ``source``: the number of who gives it, or BUCKET."""

    number: int
    piece: int
    source: int


class _Begun(_Sent):
    """The bucket begins to answer."""


class _Left(_Sent):
    """All of it has left who gives it."""


class _Landed(_Sent):
    """All of it is here."""


@dataclass
class _Node:
    decisions: NodeDecisions
    have: bytearray
    missing: int
    progress: PeerProgress = field(default_factory=lambda: PeerProgress(PATIENCE))
    near: dict[int, bytes] = field(default_factory=dict)
    above: dict[int, bytes] = field(default_factory=dict)
    own: Iterator[int] = field(default_factory=lambda: iter(()))
    given: Iterator[int] = field(default_factory=lambda: iter(()))
    wish: int = 0  # the next of ``given``; 0: not known yet
    fetching: set[int] = field(default_factory=set)
    copying: dict[int, float] = field(default_factory=dict)  # pieces that others give, and when they are overdue
    givers: Counter[int] = field(default_factory=Counter)
    refused: set[int] = field(default_factory=set)
    wait: float = _LOOK_FIRST
    landed_at: float = 0.0
    gets: int = 0
    up_free: float = 0.0  # when its line has sent, or received, all that is on its way
    down_free: float = 0.0


class Herd:
    """Nodes that begin within a second to warm a version of so many pieces of ``size`` bytes.

    ``dead``: those that never do anything. ``spread``: each node begins at a place of its own with what others give,
    where DividedPass goes through it in the order of the version.
    """

    def __init__(
        self,
        decisions: Sequence[NodeDecisions],
        pieces: int,
        size: int,
        lines: Lines,
        *,
        dead: frozenset[int] = frozenset(),
        spread: bool = False,
        seed: int = 1,
    ) -> None:
        self._nodes = [_Node(one, bytearray(pieces + 1), pieces) for one in decisions]
        self._inodes = range(pieces + 1)
        self._size = size
        self._lines = lines
        self._dead = dead
        self._spread = spread
        self._bucket = SharedLine(lines.bucket)
        self._events: list[tuple[float, int, _Sent | int]] = []  # an int: a node that looks
        self._turns = count()
        draw = random.Random(seed)
        for number in range(len(self._nodes)):
            if number not in dead:
                self._later(draw.random(), number)

    def run(self) -> HerdOutcome:
        """Let it happen."""
        while self._events or self._bucket.next_end() < float("inf"):
            end = self._bucket.next_end()
            if not self._events or end <= self._events[0][0]:
                self._receive(_Left(*self._bucket.end(), BUCKET), end)
                continue
            now, _, event = heappop(self._events)
            if isinstance(event, int):
                self._look(event, now)
            elif isinstance(event, _Landed):
                self._land(event, now)
            elif isinstance(event, _Left):
                self._receive(event, now)
            else:
                self._bucket.begin(event[:2], self._size, now)
        seconds = max(node.landed_at for number, node in enumerate(self._nodes) if number not in self._dead)
        return HerdOutcome(tuple(node.gets for node in self._nodes), seconds)

    def _later(self, when: float, event: _Sent | int) -> None:
        heappush(self._events, (when, next(self._turns), event))

    def _look(self, number: int, now: float) -> None:
        """Ask what the others have, and decide anew."""
        node = self._nodes[number]
        if not node.missing:
            return
        self._later(now + node.wait, number)
        node.wait = min(_LOOK, 2 * node.wait)
        alive = {
            other for other in (*node.decisions.neighbours, *node.decisions.upstream) if self._ask(node, other, now)
        }
        for havings, others in ((node.near, node.decisions.neighbours), (node.above, node.decisions.upstream)):
            havings.update((other, bytes(self._nodes[other].have)) for other in others)
        self._decide(number, node, alive, now)
        self._start_own(number, now)
        self._start_given(number, now)

    def _ask(self, node: _Node, other: int, now: float) -> bool:
        """Hear from another node; tell whether it gets on."""
        here = self._nodes[other]
        arrived = (len(self._inodes) - 1 - here.missing) * self._size
        node.progress.told(str(other), arrived if other not in self._dead else -1, now)
        return node.progress.gets_on(str(other), now)

    def _decide(self, number: int, node: _Node, alive: set[int], now: float) -> None:
        node.refused |= {piece for piece, due in node.copying.items() if now >= due}
        turn_of = bytearray(node.decisions.turn_of)
        for piece in node.refused:
            turn_of[piece] = OWN
        stuck = max(0.0, now - node.landed_at - _STUCK)
        waits = not stuck and any(other in alive for other in node.decisions.upstream)
        table = node.decisions.takes(alive, stuck)
        found = wanted(bytes(turn_of), table, node.near.values(), node.above.values(), waits=waits)
        node.own = compress(self._inodes[1:], found.from_source[1:])
        given = [piece for piece in compress(self._inodes[1:], found.from_others[1:]) if not node.have[piece]]
        if self._spread and given:
            first = int(number * 0.6180339887 % 1.0 * len(given))
            given = given[first:] + given[:first]
        node.given, node.wish = iter(given), 0

    def _start_own(self, number: int, now: float) -> None:
        """Ask the bucket, as far as there are slots."""
        node = self._nodes[number]
        while len(node.fetching) < self._lines.slots:
            piece = next((piece for piece in node.own if self._lacks(node, piece, now)), 0)
            if not piece:
                return
            node.fetching.add(piece)
            node.gets += 1
            self._later(now + self._lines.bucket_delay, _Begun(number, piece, BUCKET))

    @staticmethod
    def _lacks(node: _Node, piece: int, now: float) -> bool:
        coming = piece in node.copying and now < node.copying[piece]
        return not (node.have[piece] or piece in node.fetching or coming)

    def _start_given(self, number: int, now: float) -> None:
        """Have others give, in order: where the next one's givers give as much as they may, it is waited for."""
        node = self._nodes[number]
        most = max(_LEAST_AT_ONCE, _AT_ONCE // max(1, len(node.near) + len(node.above)))
        while len(node.copying) < _GIVEN_AT_ONCE:
            node.wish = node.wish or next((at for at in node.given if self._may_be_given(node, at)), 0)
            if not node.wish:
                return
            giver = self._giver(node, node.wish)
            if giver is None or node.givers[giver] >= most:
                return
            self._give(number, giver, node.wish, now)
            node.wish = 0

    @staticmethod
    def _may_be_given(node: _Node, piece: int) -> bool:
        return not (node.have[piece] or piece in node.fetching or piece in node.copying)

    @staticmethod
    def _giver(node: _Node, piece: int) -> int | None:
        """Return who has it and gives this node the fewest; those upstream where nobody else has it."""
        for havings in (node.near, node.above):
            able = [
                (node.givers[other], place, other)
                for place, (other, files) in enumerate(havings.items())
                if files[piece]
            ]
            if able:
                return min(able)[2]
        return None

    def _give(self, number: int, giver: int, piece: int, now: float) -> None:
        node, line = self._nodes[number], self._nodes[giver]
        node.copying[piece] = now + _OVERDUE + self._size / _SLOW
        node.givers[giver] += 1
        line.up_free = max(line.up_free, now + self._lines.node_delay) + self._size / self._lines.node
        self._later(line.up_free, _Left(number, piece, giver))

    def _receive(self, sent: _Left, now: float) -> None:
        """Let what was sent arrive, as fast as the node's own line takes it."""
        node = self._nodes[sent.number]
        node.down_free = max(now, node.down_free + self._size / self._lines.node)
        self._later(node.down_free, _Landed(*sent))

    def _land(self, sent: _Landed, now: float) -> None:
        node = self._nodes[sent.number]
        if sent.source == BUCKET:
            node.fetching.discard(sent.piece)
        else:
            node.givers[sent.source] -= 1
            del node.copying[sent.piece]
        if not node.have[sent.piece]:
            node.have[sent.piece] = 1
            node.missing -= 1
            node.landed_at = now
        self._start_own(sent.number, now)
        self._start_given(sent.number, now)

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
from stoker_sidecar.fetcher.core.division import OWN, wanted
from stoker_sidecar.fetcher.core.source_share import ShareGrowth
from stoker_sidecar.fetcher.download.node_division import PATIENCE

# As in DividedPass: seconds between two looks at the others, at first and later; what is taken from others at a time,
# and from one of them, or the least.
_LOOK_FIRST, _LOOK = 0.05, 0.5
_GIVEN_AT_ONCE, _AT_ONCE, _LEAST_AT_ONCE = 32, 16, 2
# Seconds until what another node is to give is asked of the bucket as well, and bytes a second that it may take beside.
_OVERDUE, _SLOW = 4.0, 2e6
BUCKET = ""


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
    """A piece on its way to a node. ``source``: host:port of who gives it, or BUCKET."""

    number: int
    piece: int
    source: str


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
    growth: ShareGrowth
    turn_of: bytes
    having: dict[str, bytes] = field(default_factory=dict)  # by host:port, as in DividedPass
    own: Iterator[int] = field(default_factory=lambda: iter(()))
    given: Iterator[int] = field(default_factory=lambda: iter(()))
    wish: int = 0  # the next of ``given``; 0: not known yet
    fetching: set[int] = field(default_factory=set)
    copying: dict[int, float] = field(default_factory=dict)  # pieces that others give, and when they are overdue
    givers: Counter[str] = field(default_factory=Counter)
    refused: set[int] = field(default_factory=set)
    wait: float = _LOOK_FIRST
    landed_at: float = 0.0
    gets: int = 0
    up_free: float = 0.0  # when its line has sent, or received, all that is on its way
    down_free: float = 0.0


class Herd:
    """Nodes that begin within a second to warm a version of so many pieces of ``size`` bytes.

    ``dead``: those that never do anything.
    """

    def __init__(
        self,
        decisions: Sequence[NodeDecisions],
        pieces: int,
        size: int,
        lines: Lines,
        *,
        dead: frozenset[int] = frozenset(),
        seed: int = 1,
    ) -> None:
        self._nodes = [_node(one, pieces) for one in decisions]
        self._inodes = range(pieces + 1)
        self._size = size
        self._lines = lines
        self._dead = dead
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
        for peer, other in node.decisions.asked.items():
            here, dead = self._nodes[other], other in self._dead
            arrived = (len(self._inodes) - 1 - here.missing) * self._size
            node.decisions.division.progress.told(peer, -1 if dead else arrived, now)
            node.having[peer] = b"" if dead else bytes(here.have)
        self._decide(node, now)
        self._start_own(number, now)
        self._start_given(number, now)

    def _decide(self, node: _Node, now: float) -> None:
        node.refused |= {piece for piece, due in node.copying.items() if now >= due}
        if node.growth.grows(node.landed_at, now):
            node.turn_of = node.decisions.turns_of(node.growth.share)
        turn_of = bytearray(node.turn_of)
        for piece in node.refused:
            turn_of[piece] = OWN
        division = node.decisions.division
        takes = division.sharers(node.growth, lambda _: True, now).takes()
        found = wanted(bytes(turn_of), takes, node.having.values())
        node.own = compress(self._inodes[1:], found.from_source[1:])
        given = [piece for piece in compress(self._inodes[1:], found.from_others[1:]) if not node.have[piece]]
        first = int(division.begin * len(self._inodes))
        node.given, node.wish = iter(sorted(given, key=lambda piece: (piece < first, piece))), 0

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
        while len(node.copying) < _GIVEN_AT_ONCE:
            node.wish = node.wish or next((at for at in node.given if self._may_be_given(node, at)), 0)
            if not node.wish:
                return
            giver = self._giver(node, node.wish)
            if giver is None:
                return
            self._give(number, giver, node.wish, now)
            node.wish = 0

    @staticmethod
    def _may_be_given(node: _Node, piece: int) -> bool:
        return not (node.have[piece] or piece in node.fetching or piece in node.copying)

    @staticmethod
    def _giver(node: _Node, piece: int) -> str | None:
        """Return who has it, is not busy and gives this node the fewest, of its own group before others."""
        links, most = node.decisions.division.links, max(_LEAST_AT_ONCE, _AT_ONCE // max(1, len(node.having)))
        able = [
            (peer in links, node.givers[peer], place, peer)
            for place, (peer, files) in enumerate(node.having.items())
            if files[piece : piece + 1] == b"\1" and node.givers[peer] < most
        ]
        return min(able)[3] if able else None

    def _give(self, number: int, giver: str, piece: int, now: float) -> None:
        node = self._nodes[number]
        line = self._nodes[node.decisions.asked[giver]]
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


def _node(decisions: NodeDecisions, pieces: int) -> _Node:
    share = decisions.division.share
    growth = ShareGrowth(share, PATIENCE)
    return _Node(decisions, bytearray(pieces + 1), pieces, growth, decisions.turns_of(share))

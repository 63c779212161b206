"""Nodes, their lines and their bucket, event by event: each node warms as DividedPass does. Pure, and seeded."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import compress, count

from bench.herd.decisions import NodeDecisions
from bench.herd.shared_line import SharedLine
from stoker_sidecar.fetcher.core.division import PeerProgress, wanted
from stoker_sidecar.fetcher.download.divided_pass import PATIENCE

# As in DividedPass: seconds between two looks at the neighbours, and those in which nothing came at all.
_LOOK, _STUCK = 0.5, 3 * PATIENCE
_FROM_BUCKET = -1


@dataclass(frozen=True)
class Lines:
    """What carries bytes. Rates in bytes a second, of the bucket in all and of a node in each direction.

    ``bucket_delay``, ``node_delay``: seconds until the first byte of an answer. ``slots``: transfers to a node at once.
    """

    bucket: float
    node: float
    bucket_delay: float = 0.02
    node_delay: float = 0.001
    slots: int = 16


@dataclass(frozen=True)
class Outcome:
    """What came of it. ``gets``: requests at the bucket, by node; ``seconds``: until every node that lives had it all."""

    gets: tuple[int, ...]
    seconds: float


@dataclass
class _Node:
    decisions: NodeDecisions
    have: bytearray
    missing: int
    progress: PeerProgress = field(default_factory=lambda: PeerProgress(PATIENCE))
    havings: dict[int, bytes] = field(default_factory=dict)
    own: Iterator[int] = field(default_factory=lambda: iter(()))
    given: Iterator[int] = field(default_factory=lambda: iter(()))
    coming: set[int] = field(default_factory=set)
    givers: Counter[int] = field(default_factory=Counter)
    arrived: int = 0
    landed_at: float = 0.0
    gets: int = 0
    up_free: float = 0.0  # when its line has sent, or received, all that is on its way
    down_free: float = 0.0


class Herd:
    """Nodes that begin within a second to warm a version of so many pieces. ``dead``: those that never do anything.

    ``turned``: of neighbours that give equally few the next one by number gives, not the first of all.
    """

    def __init__(
        self,
        decisions: Sequence[NodeDecisions],
        pieces: int,
        size: int,
        lines: Lines,
        *,
        dead: frozenset[int] = frozenset(),
        turned: bool = False,
        seed: int = 1,
    ) -> None:
        self._nodes = [_Node(one, bytearray(pieces + 1), pieces) for one in decisions]
        self._inodes = range(pieces + 1)
        self._size = size
        self._lines = lines
        self._dead = dead
        self._turned = turned
        self._bucket = SharedLine(lines.bucket)
        self._events: list[tuple[float, int, int, int, int]] = []  # when, turn, node, piece (0: a look), from whom
        self._turns = count()
        draw = random.Random(seed)
        for number in range(len(self._nodes)):
            if number not in dead:
                self._later(draw.random(), number, 0, _FROM_BUCKET)

    def run(self) -> Outcome:
        """Let it happen."""
        now = 0.0
        while self._events or self._bucket.next_end() < float("inf"):
            ends = self._bucket.next_end()
            if not self._events or ends <= self._events[0][0]:
                now = ends
                number, piece = self._bucket.end()
                self._receive(number, piece, _FROM_BUCKET, now)
                continue
            now, _, number, piece, source = heappop(self._events)
            if not piece:
                self._look(number, now)
            elif source == _FROM_BUCKET and piece < 0:
                self._bucket.begin((number, -piece), self._size, now)
            elif piece < 0:
                self._receive(number, -piece, source, now)
            else:
                self._land(number, piece, source, now)
        seconds = max(node.landed_at for number, node in enumerate(self._nodes) if number not in self._dead)
        return Outcome(tuple(node.gets for node in self._nodes), seconds)

    def _later(self, when: float, number: int, piece: int, source: int) -> None:
        heappush(self._events, (when, next(self._turns), number, piece, source))

    def _look(self, number: int, now: float) -> None:
        """Ask what the neighbours have, and decide anew, as DividedPass does."""
        node = self._nodes[number]
        if not node.missing:
            return
        self._later(now + _LOOK, number, 0, _FROM_BUCKET)
        asked = node.decisions.neighbours
        for other in asked:
            here = self._nodes[other]
            node.progress.told(str(other), here.arrived if other not in self._dead else -1, now)
            node.havings[other] = bytes(here.have) if here.arrived else b""
        alive = set(node.progress.alive({other: str(other) for other in asked}, now))
        stuck = max(0.0, now - node.landed_at - _STUCK)
        decided = wanted(node.decisions.turn_of, node.decisions.takes(alive, stuck), node.havings.values())
        node.own = compress(self._inodes[1:], decided.from_source[1:])
        node.given = compress(self._inodes[1:], decided.from_others[1:])
        self._start(number, now)

    def _start(self, number: int, now: float) -> None:
        """Begin what there are slots for: of the own share and of what others have, in turn."""
        node, slots = self._nodes[number], self._lines.slots
        while len(node.coming) < slots:
            own = self._next(node, node.own)
            if own:
                node.coming.add(own)
                node.gets += 1
                self._later(now + self._lines.bucket_delay, number, -own, _FROM_BUCKET)
            given = self._next(node, node.given) if len(node.coming) < slots else 0
            if given:
                self._ask(number, given, now)
            if not own and not given:
                return

    @staticmethod
    def _next(node: _Node, pieces: Iterator[int]) -> int:
        return next((piece for piece in pieces if not node.have[piece] and piece not in node.coming), 0)

    def _ask(self, number: int, piece: int, now: float) -> None:
        """Have the neighbour give it that gives the fewest; its line sends one piece after the other."""
        node = self._nodes[number]
        able = [other for other, files in node.havings.items() if files and files[piece]]
        nodes = len(self._nodes)
        turned = self._turned
        giver = min(able, key=lambda other: (node.givers[other], (other - number) % nodes if turned else other))
        node.coming.add(piece)
        node.givers[giver] += 1
        line = self._nodes[giver]
        line.up_free = max(line.up_free, now + self._lines.node_delay) + self._size / self._lines.node
        self._later(line.up_free, number, -piece, giver)

    def _receive(self, number: int, piece: int, source: int, now: float) -> None:
        """Let what was sent arrive as fast as the node's own line takes it."""
        node = self._nodes[number]
        node.down_free = max(now, node.down_free + self._size / self._lines.node)
        self._later(node.down_free, number, piece, source)

    def _land(self, number: int, piece: int, source: int, now: float) -> None:
        node = self._nodes[number]
        node.coming.discard(piece)
        if source != _FROM_BUCKET:
            node.givers[source] -= 1
        node.have[piece] = 1
        node.missing -= 1
        node.arrived += self._size
        node.landed_at = now
        self._start(number, now)

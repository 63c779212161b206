"""The record of each peer. A peer with wrong bytes is dropped; a failing one gets fewer requests, later. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from stoker_sidecar.fetcher.ondisk.piece_maps import Gift

# Wrong files after which a node is dropped for this Dataset, if their share of its files exceeds one in two. A wrong
# file costs only its bytes between two nodes. A dropped node costs source requests for all files that it was to fetch.
MOST_WRONG, _ONE_IN = 8, 2
# Failures in a row after which a node rests. Then the seconds of the first rest (doubled each time), and the maximum.
MOST_FAILURES = 16
_REST, _LONGEST_REST, _DOUBLINGS = 5.0, 60.0, 4
# Weights of a failure and of a timeout, on a scale up to 1, and the factor of decay after a success.
_FAILED, _LATE, _STAYS = 0.1, 0.5, 0.95
# Thresholds of doubt, and of much doubt. A wrong inventory alone leads to the first at most.
_DOUBTED, _MUCH = 0.25, 0.75


class AbleGiver(NamedTuple):
    """A node that has an item and may be asked for it.

    ``doubt``: how much it failed lately; 0 is almost never. ``distance``: more is farther away. ``linked``: it is in
    another group. ``asked``: transfers that it gives this node at the moment. ``busy``: it reported lately that it
    serves at its limit.
    """

    peer: str
    distance: int = 0
    linked: bool = False
    asked: int = 0
    busy: bool = False
    doubt: int = 0


def nearest_giver(able: Sequence[AbleGiver], most: int) -> str | None:
    """Return the node to ask: not busy, least doubted, nearest, of the own group, with the fewest transfers.

    The criteria apply in this order. None: all nodes are at ``most`` transfers to this node, or more.
    """
    free = [one for one in able if one.asked < most]
    return min(free, key=_least_trouble).peer if free else None


def _least_trouble(one: AbleGiver) -> tuple[bool, int, int, bool, int]:
    return one.busy, one.doubt, one.distance, one.linked, one.asked


class PeerScores:
    """The record of the peers, by host:port, for one Dataset while this process runs. ``clock``: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._wrong: Final[Counter[str]] = Counter()
        self._wrong_pieces: Final[Counter[str]] = Counter()
        self._given: Final[Counter[str]] = Counter()
        self._failures: Final[Counter[str]] = Counter()
        self._doubts: Final[dict[str, float]] = {}
        self._contradicted: Final[set[str]] = set()
        self._rests: Final[Counter[str]] = Counter()
        self._rests_until: Final[dict[str, float]] = {}

    def gave(self, peer: str) -> None:
        """Note a success of a node."""
        self._failures.pop(peer, None)
        self._given[peer] += 1
        if peer in self._doubts:
            self._doubts[peer] *= _STAYS

    def failed(self, peer: str, *, late: bool = False) -> None:
        """Note a failure of a node. ``late``: it did not answer in time."""
        if self._is_resting(peer):  # it was asked before
            return
        self._doubts[peer] = min(1.0, self._doubts.get(peer, 0.0) + (_LATE if late else _FAILED))
        self._failures[peer] += 1 + late
        if self._failures[peer] >= MOST_FAILURES:
            self._rests_until[peer] = self._clock() + min(_LONGEST_REST, _REST * 2 ** self._rests[peer])
            self._rests[peer] = min(_DOUBLINGS, self._rests[peer] + 1)
            self._failures[peer] = MOST_FAILURES // 2

    def contradicted(self, peer: str) -> None:
        """Note that a node's inventory was wrong, or is outdated. The node may have restarted."""
        self._contradicted.add(peer)
        before = self._doubts.get(peer, 0.0)
        self._doubts[peer] = max(before, min(_DOUBTED, before + _FAILED))

    def doubt(self, peer: str) -> int:
        """Return how much a node failed lately: 0 is almost never, 2 the most."""
        doubts = self._doubts.get(peer, 0.0)
        return (doubts >= _DOUBTED) + (doubts >= _MUCH)

    def is_believed(self, peer: str) -> bool:
        """Return True if a report of a missing item is enough: the node was never contradicted and failed little."""
        return peer not in self._contradicted and self.doubt(peer) == 0

    def was_wrong(self, peer: str) -> None:
        """Note that a file's checksum differed from the source's."""
        self._wrong[peer] += 1

    def gave_wrong_piece(self, peer: str) -> None:
        """Note that a piece was not: with it, more of its file was in doubt."""
        self._wrong_pieces[peer] += 1

    def passed_on_wrong_piece(self, peer: str) -> None:
        """Note that a node gave a wrong piece that it had from another node, without proof."""
        self._doubts[peer] = min(1.0, self._doubts.get(peer, 0.0) + _LATE)

    def most_suspect(self, pieces: Collection[Gift]) -> Gift:
        """Return the giver to suspect first among those of a wrong file.

        Nodes that were wrong or failed come first, then passed-on pieces, then the node that gave most.
        """
        counts = Counter(pieces)
        return max(counts, key=lambda gift: (*self._suspicion(gift), counts[gift], gift))

    def begin(self) -> None:
        """Begin a pass: nodes that failed may be asked again, but not nodes that were wrong."""
        for record in (self._failures, self._doubts, self._rests, self._rests_until, self._contradicted):
            record.clear()

    def may_ask(self, peer: str) -> bool:
        """Return True if a node may be asked."""
        lies = self._wrong[peer] >= MOST_WRONG and self._wrong[peer] * _ONE_IN > self._given[peer]
        return not lies and not self._is_resting(peer)

    def may_ask_pieces(self, peer: str) -> bool:
        """Return True if a node may be asked for pieces of large files."""
        return self._wrong_pieces[peer] == 0 and self.may_ask(peer)

    def _suspicion(self, gift: Gift) -> tuple[int, bool, bool, int, int]:
        wrong, doubt = self._wrong[gift.giver], self.doubt(gift.giver)
        return self._wrong_pieces[gift.giver], wrong + doubt > 0, gift.passed_on, wrong, doubt

    def _is_resting(self, peer: str) -> bool:
        return self._clock() < self._rests_until.get(peer, float("-inf"))

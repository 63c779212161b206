"""What other nodes were seen to give: who gave wrong bytes is asked no more, and who fails later and less. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

# Wrong files after which a node is asked no more for this Dataset, if they are more than one in so many that came. Each
# costs its own bytes between two nodes alone, but who asks a node no more asks the source for all that it was to fetch.
MOST_WRONG, _ONE_IN = 8, 2
# Files and pieces that a node failed to give, in a row, after which it rests; seconds for which it does at first, twice
# as many each time, and at most.
MOST_FAILURES = 16
_REST, _LONGEST_REST, _DOUBLINGS = 5.0, 60.0, 4
# What a failure counts, and one for which it was waited, of 1 in all; and how much of that stays once something came.
_FAILED, _LATE, _STAYS = 0.1, 0.5, 0.95
# From where on a node is doubted, and doubted much. What it says of what it has leads to no more than the first.
_DOUBTED, _MUCH = 0.25, 0.75


class Gift(NamedTuple):
    """Who gave a piece, and whether it was ``passed_on``: another node had given it to that one."""

    giver: str = ""
    passed_on: bool = False


class AbleGiver(NamedTuple):
    """A node that has what is wanted, and may be asked for it.

    ``doubt``: how much it failed lately; 0 is next to never. ``distance``: more is farther away. ``linked``: it is of
    another group. ``asked``: what it gives this node at the moment. ``busy``: it said lately that it gives to all
    together as much as it may.
    """

    peer: str
    distance: int = 0
    linked: bool = False
    asked: int = 0
    busy: bool = False
    doubt: int = 0


def nearest_giver(able: Sequence[AbleGiver], most: int) -> str | None:
    """Return whom to ask: of those that are not busy one that did not fail, the nearest, if it can be of the own group.

    Of several such the one that gives the least. None: all give this node ``most`` at the moment, or more.
    """
    free = [one for one in able if one.asked < most]
    return min(free, key=_least_trouble).peer if free else None


def _least_trouble(one: AbleGiver) -> tuple[bool, int, int, bool, int]:
    return one.busy, one.doubt, one.distance, one.linked, one.asked


class Givers:
    """The record of the other nodes, by host:port, for one Dataset while this process runs. ``clock``: seconds."""

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
        """Note that something came from a node as it should."""
        self._failures.pop(peer, None)
        self._given[peer] += 1
        if peer in self._doubts:
            self._doubts[peer] *= _STAYS

    def failed(self, peer: str, *, late: bool = False) -> None:
        """Note that something did not come; ``late``: nor an answer, for which it was waited."""
        if self._is_resting(peer):  # it was asked before
            return
        self._doubts[peer] = min(1.0, self._doubts.get(peer, 0.0) + (_LATE if late else _FAILED))
        self._failures[peer] += 1 + late
        if self._failures[peer] >= MOST_FAILURES:
            self._rests_until[peer] = self._clock() + min(_LONGEST_REST, _REST * 2 ** self._rests[peer])
            self._rests[peer] = min(_DOUBLINGS, self._rests[peer] + 1)
            self._failures[peer] = MOST_FAILURES // 2

    def contradicted(self, peer: str) -> None:
        """Note that what a node said it has was not so, or is so no more: it may have been started again."""
        self._contradicted.add(peer)
        before = self._doubts.get(peer, 0.0)
        self._doubts[peer] = max(before, min(_DOUBTED, before + _FAILED))

    def doubt(self, peer: str) -> int:
        """Tell how much a node failed lately: 0 is next to never, 2 the most."""
        doubts = self._doubts.get(peer, 0.0)
        return (doubts >= _DOUBTED) + (doubts >= _MUCH)

    def is_believed(self, peer: str) -> bool:
        """Tell whether a node's word that it lacks something is enough: it never was contradicted, nor failed much."""
        return peer not in self._contradicted and self.doubt(peer) == 0

    def was_wrong(self, peer: str) -> None:
        """Note that a file that came was not what the source says it is."""
        self._wrong[peer] += 1

    def gave_wrong_piece(self, peer: str) -> None:
        """Note that a piece was not: with it, more of its file was in doubt."""
        self._wrong_pieces[peer] += 1

    def passed_on_wrong_piece(self, peer: str) -> None:
        """Note that a piece was not that another node had given it, and that nothing proved."""
        self._doubts[peer] = min(1.0, self._doubts.get(peer, 0.0) + _LATE)

    def most_suspect(self, pieces: Collection[Gift]) -> Gift:
        """Return which are doubted first where one was wrong.

        Those of who was wrong or failed, what was passed on, then those of who gave most.
        """
        counts = Counter(pieces)
        return max(counts, key=lambda gift: (*self._suspicion(gift), counts[gift], gift))

    def begin(self) -> None:
        """Begin a pass: who failed before may be asked again, who was wrong may not."""
        for record in (self._failures, self._doubts, self._rests, self._rests_until, self._contradicted):
            record.clear()

    def may_ask(self, peer: str) -> bool:
        """Tell whether a node is asked."""
        lies = self._wrong[peer] >= MOST_WRONG and self._wrong[peer] * _ONE_IN > self._given[peer]
        return not lies and not self._is_resting(peer)

    def may_ask_pieces(self, peer: str) -> bool:
        """Tell whether a node is asked for pieces of large files."""
        return self._wrong_pieces[peer] == 0 and self.may_ask(peer)

    def _suspicion(self, gift: Gift) -> tuple[int, bool, bool, int, int]:
        wrong, doubt = self._wrong[gift.giver], self.doubt(gift.giver)
        return self._wrong_pieces[gift.giver], wrong + doubt > 0, gift.passed_on, wrong, doubt

    def _is_resting(self, peer: str) -> bool:
        return self._clock() < self._rests_until.get(peer, float("-inf"))

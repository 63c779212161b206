"""What other nodes were seen to give: who gave wrong bytes, or nothing, is asked no more. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

# Wrong files after which a node is asked no more for this Dataset, if they are more than one in so many that came: a
# damaged disk has one or two, and each costs its own bytes alone.
MOST_WRONG, _ONE_IN = 3, 4
# Files and pieces that a node failed to give, in a row, after which it is asked no more in this pass.
MOST_FAILURES = 16


class AbleGiver(NamedTuple):
    """A node that has what is wanted, and may be asked for it.

    ``distance``: more is farther away. ``linked``: it is of another group. ``asked``: what it gives this node at the
    moment. ``busy``: it said lately that it gives to all together as much as it may.
    """

    peer: str
    distance: int = 0
    linked: bool = False
    asked: int = 0
    busy: bool = False


def nearest_giver(able: Sequence[AbleGiver], most: int) -> str | None:
    """Return whom to ask: of those that are not busy the nearest, if it can be of the own group, that gives the least.

    None: all give this node ``most`` at the moment, or more.
    """
    free = [one for one in able if one.asked < most]
    return min(free, key=lambda one: (one.busy, one.distance, one.linked, one.asked)).peer if free else None


class Givers:
    """The record of the other nodes, by host:port, for one Dataset while this process runs."""

    def __init__(self) -> None:
        self._wrong: Final[Counter[str]] = Counter()
        self._wrong_pieces: Final[Counter[str]] = Counter()
        self._given: Final[Counter[str]] = Counter()
        self._failures: Final[Counter[str]] = Counter()

    def gave(self, peer: str) -> None:
        """Note that something came from a node as it should."""
        self._failures.pop(peer, None)
        self._given[peer] += 1

    def failed(self, peer: str, *, late: bool = False) -> None:
        """Note that something did not come; ``late``: nor an answer, for which it was waited."""
        self._failures[peer] += 1 + late

    def was_wrong(self, peer: str) -> None:
        """Note that a file that came was not what the source says it is."""
        self._wrong[peer] += 1

    def gave_wrong_piece(self, peer: str) -> None:
        """Note that a piece was not: with it, more of its file was in doubt."""
        self._wrong_pieces[peer] += 1

    def most_suspect(self, peers: Collection[str]) -> str:
        """Return whose pieces are to be doubted first where one of them was wrong: known ones, then who gave most."""
        counts = Counter(peers)
        return max(counts, key=lambda peer: (self._wrong_pieces[peer], self._wrong[peer], counts[peer], peer))

    def begin(self) -> None:
        """Begin a pass: who failed before may be asked again, who was wrong may not."""
        self._failures.clear()

    def may_ask(self, peer: str) -> bool:
        """Tell whether a node is asked."""
        lies = self._wrong[peer] >= MOST_WRONG and self._wrong[peer] * _ONE_IN > self._given[peer]
        return not lies and self._failures[peer] < MOST_FAILURES

    def may_ask_pieces(self, peer: str) -> bool:
        """Tell whether a node is asked for pieces of large files."""
        return self._wrong_pieces[peer] == 0 and self.may_ask(peer)

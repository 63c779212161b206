"""What other nodes were seen to give: who gave wrong bytes, or nothing, is asked no more. Pure."""

from collections import Counter
from typing import Final

# Wrong files or pieces after which a node is asked no more for this Dataset: a damaged disk has one or two.
MOST_WRONG = 3
# Files and pieces that a node failed to give, in a row, after which it is asked no more in this pass.
MOST_FAILURES = 8


class Givers:
    """The record of the other nodes, by host:port, for one Dataset while this process runs."""

    def __init__(self) -> None:
        self._wrong: Final[Counter[str]] = Counter()
        self._failures: Final[Counter[str]] = Counter()

    def gave(self, peer: str) -> None:
        """Note that something came from a node as it should."""
        self._failures.pop(peer, None)

    def failed(self, peer: str) -> None:
        """Note that something did not come."""
        self._failures[peer] += 1

    def was_wrong(self, peer: str) -> None:
        """Note that what came was not what the source says it is."""
        self._wrong[peer] += 1

    def begin(self) -> None:
        """Begin a pass: who failed before may be asked again, who was wrong may not."""
        self._failures.clear()

    def may_ask(self, peer: str) -> bool:
        """Tell whether a node is asked."""
        return self._wrong[peer] < MOST_WRONG and self._failures[peer] < MOST_FAILURES

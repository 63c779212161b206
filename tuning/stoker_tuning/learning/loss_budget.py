"""What trying may cost: a share of what the workload would have read without it.

The constraint of conservative bandits (Wu, Shariff, Lattimore and Szepesvari 2016): every window in which nothing is
tried earns a little, every window of a trial spends what it loses, and nothing is tried that is not earned.
"""

from dataclasses import dataclass

SHARE = 0.03
# Windows that may be lost before anything is earned.
AHEAD = 0.5
# A window counts as no more than so many of the usual ones: one lucky trial does not pay for a day of bad ones.
_MOST_RATIO = 2.0
_MOST_CREDIT = 10.0


@dataclass
class LossBudget:
    """Windows' worth of reading that may be lost now. ``spent``: what was lost in all, and gained, below zero."""

    credit: float = AHEAD
    spent: float = 0.0

    def idle(self) -> None:
        """Take a window in which nothing was tried."""
        self._add(SHARE)

    def tried(self, ratio: float) -> None:
        """Take a window of a trial: its items a second over those under the value that it is compared with."""
        lost = 1.0 - min(ratio, _MOST_RATIO)
        self.spent += lost
        self._add(SHARE - lost)

    def allows(self, ratio: float) -> bool:
        """Tell whether a window may be tried that is expected to read this share of the usual."""
        return self.credit >= 1.0 - ratio

    def _add(self, credit: float) -> None:
        self.credit = min(_MOST_CREDIT, self.credit + credit)

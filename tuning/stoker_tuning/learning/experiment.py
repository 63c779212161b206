"""One change as an experiment: which value is in force in the next window, and when it is decided what came of it.

Two designs. **Alternating**: windows come in pairs, one under the old value and one under the new one, and a coin
chooses which is first, so that what drifts by itself does not count (a switchback experiment). **Before and after**,
for what cannot be turned to and fro: each window after the change is compared with one before it, both in proportion
to the control where there is one; without a control, what changed by itself at the same time counts too, and the
outcome has no control to show.
"""

import math
import random
from collections.abc import Sequence
from statistics import median

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict
from stoker_tuning.learning.paired_test import MOST_PAIRS, helped, hurt, interval, log_ratio
from stoker_tuning.learning.windows import FigureWindow, control_figures, figures
from stoker_tuning.rules.spec import KnobValue

# The guard: so many pairs in a row below this share of the old value's, and it is taken back without more proof.
GUARD_PAIRS, GUARD_RATIO = 2, 0.7
# What makes no difference that could be found stays where it was asked for, unless it looks worse by this share.
_WORSE = -0.02
_MOST_IDLE = 4 * MOST_PAIRS  # windows in which nothing is read, before the experiment is given up


class Experiment:
    """A change on trial. Costs 2 * MOST_PAIRS windows at most.

    ``before``: the last windows under the old value, for a change that cannot be turned to and fro; empty: the design
    alternates. ``keep_neutral``: whether what makes no difference stays, as what a rule asked for does (unless it looks
    worse by 2 %).
    """

    def __init__(self, change: Change, before: Sequence[FigureWindow] = (), *, keep_neutral: bool = True) -> None:
        self.change = change
        self._before = list(before)[-MOST_PAIRS:]
        self._alternates = not before
        self._keep_neutral = keep_neutral
        self._coin = random.Random(change.id)
        self._order = self._toss()
        self._half: FigureWindow | None = None
        self._old: list[FigureWindow] = []
        self._new: list[FigureWindow] = []
        self._differences: list[float] = []
        self._idle = 0
        self.verdict: ChangeVerdict | None = None

    @property
    def value(self) -> KnobValue:
        """The value to be in force in the next window; after the verdict, for good."""
        if self.verdict is not None:
            return self.change.old if self.taken_back else self.change.new
        if not self._alternates:
            return self.change.new
        return self.change.new if self._order[0 if self._half is None else 1] else self.change.old

    @property
    def taken_back(self) -> bool:
        """Whether the old value is in force again."""
        if self.verdict is ChangeVerdict.NEUTRAL:
            return not self._keep_neutral or self._gain < _WORSE
        return self.verdict is ChangeVerdict.HURT

    @property
    def _gain(self) -> float:
        return math.expm1(median(self._differences)) if self._differences else 0.0

    @property
    def pairs(self) -> int:
        """How many pairs have been compared."""
        return len(self._differences)

    @property
    def last_ratio(self) -> float | None:
        """The new value's items a second over the old one's in the last pair; None: there is none yet."""
        return math.exp(self._differences[-1]) if self._differences else None

    def saw(self, window: FigureWindow) -> None:
        """Take the window that has just ended, in which ``value`` was in force."""
        if self.verdict is not None:
            return
        if self._alternates:
            self._pair_up(window)
        else:
            self._compare(self._before[self.pairs % len(self._before)], window)

    def _pair_up(self, window: FigureWindow) -> None:
        if self._half is None:
            self._half = window
            return
        first, self._half = self._half, None
        new, old = (first, window) if self._order[0] else (window, first)
        self._order = self._toss()
        self._compare(old, new)

    def _compare(self, old: FigureWindow, new: FigureWindow) -> None:
        difference = _difference(old, new, controlled=not self._alternates)
        if difference is None:
            self._idle += 1
            if self._idle >= _MOST_IDLE:
                self.verdict = ChangeVerdict.NEUTRAL
            return
        self._differences.append(difference)
        self._old.append(old)
        self._new.append(new)
        self.verdict = self._judged()

    def _judged(self) -> ChangeVerdict | None:
        seen = self._differences
        if hurt(seen) or (len(seen) >= GUARD_PAIRS and max(seen[-GUARD_PAIRS:]) < math.log(GUARD_RATIO)):
            return ChangeVerdict.HURT
        if helped(seen):
            return ChangeVerdict.HELPED
        most = MOST_PAIRS if self._alternates else len(self._before)
        return ChangeVerdict.NEUTRAL if len(seen) >= most else None

    def _toss(self) -> tuple[bool, bool]:
        """Return whether the first, and the second, window of a pair is under the new value."""
        first = self._coin.random() < 0.5
        return first, not first

    def outcome(self, at: float) -> ChangeOutcome | None:
        """Return what came of it, told at ``at``; None: it is not decided."""
        if self.verdict is None:
            return None
        low, high = interval(self._differences) if self._differences else (-1.0, 7.0)
        return ChangeOutcome(
            self.change,
            at,
            self.verdict,
            self._gain,
            low,
            high,
            figures(self._old),
            figures(self._new),
            control_figures(self._old),
            control_figures(self._new),
            self.taken_back,
        )


def _difference(old: FigureWindow, new: FigureWindow, *, controlled: bool) -> float | None:
    ratio = log_ratio(new.items_per_second, old.items_per_second)
    if ratio is None or not controlled or old.control is None or new.control is None:
        return ratio
    by_itself = log_ratio(new.control, old.control)
    return ratio if by_itself is None else ratio - by_itself

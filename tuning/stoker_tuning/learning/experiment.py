"""One change as a switchback experiment: windows in pairs, one with the old value and one with the new.

A coin selects the order of each pair, so that drift cancels out. The experiment selects the value of each window and
decides when the evidence is sufficient.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict, WindowFigures
from stoker_tuning.rules.spec import KnobValue


@dataclass(frozen=True, slots=True)
class FigureWindow:
    """The rate of a workload in one window, in which a knob did not change.

    ``stall``: share of its time, or None without a measurement. ``control``: items per second of a workload without a
    change in the same window, or None.
    """

    items_per_second: float
    stall: float | None = None
    control: float | None = None


def figures(windows: Sequence[FigureWindow]) -> WindowFigures:
    """Return the means over windows."""
    stalls = [window.stall for window in windows if window.stall is not None]
    rate = fmean(window.items_per_second for window in windows) if windows else 0.0
    return WindowFigures(len(windows), rate, fmean(stalls) if stalls else None)


def control_figures(windows: Sequence[FigureWindow]) -> WindowFigures | None:
    """Return the means of the control; None if any window has no control."""
    controls = [window.control for window in windows if window.control is not None]
    return WindowFigures(len(controls), fmean(controls)) if controls and len(controls) == len(windows) else None


# Error probabilities: a neutral change is judged to help, or to hurt. A wrong "hurt" costs a chance, no throughput.
HELPED_ERROR, HURT_ERROR = 0.05, 0.1
# Boldness of the bets; the stake is spread over all of them. In 1 / logarithm: 2 for changes by half, 32 for 3 %.
_STAKES = (2.0, 8.0, 32.0)
MOST_PAIRS = 24
# Bounds of the logarithms: a window without reads has none.
_MOST = math.log(8.0)
_HALVINGS = 40


def log_ratio(new: float, old: float, most: float = _MOST) -> float | None:
    """Return the logarithm of ``new / old``, of items per second; None if both windows had no reads."""
    if new <= 0 and old <= 0:
        return None
    if new <= 0 or old <= 0:
        return most if new > 0 else -most
    return max(-most, min(most, math.log(new / old)))


def log_money(differences: Sequence[float], center: float, side: int) -> float:
    """Return the log wealth of a bet of 1 that all differences lie above (``side`` 1) or below (-1) ``center``."""
    logs = [
        sum(math.log1p(math.tanh(side * stake * (each - center)) * 0.999999) for each in differences)
        for stake in _STAKES
    ]
    most = max(logs)
    return most + math.log(sum(math.exp(each - most) for each in logs) / len(logs))


def helped(differences: Sequence[float]) -> bool:
    """Return True if the change increased the figure, with an error of at most 5 % over any number of calls."""
    return log_money(differences, 0.0, 1) >= -math.log(HELPED_ERROR)


def hurt(differences: Sequence[float]) -> bool:
    """Return True if the change decreased the figure, with an error of at most 10 % over any number of calls."""
    return log_money(differences, 0.0, -1) >= -math.log(HURT_ERROR)


def interval(differences: Sequence[float], error: float = HELPED_ERROR) -> tuple[float, float]:
    """Return the interval of the true gain, as shares, with this error on each side, valid at any time."""
    return math.expm1(_limit(differences, 1, error)), math.expm1(_limit(differences, -1, error))


def _limit(differences: Sequence[float], side: int, error: float) -> float:
    """Return the farthest refuted center, from outside; the wealth falls steadily as the center moves inward."""
    outside, inside = -side * 2 * _MOST, side * 2 * _MOST
    if log_money(differences, outside, side) < -math.log(error):
        return -side * _MOST
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        if log_money(differences, middle, side) >= -math.log(error):
            outside = middle
        else:
            inside = middle
    return max(-_MOST, min(_MOST, outside))


# Pairs in a row below this share of the old value, after which the change is reverted without further evidence.
GUARD_PAIRS, GUARD_RATIO = 2, 0.7
# A neutral change stays, unless its gain is below this.
_WORSE = -0.02
_MOST_IDLE = 4 * MOST_PAIRS  # windows without reads, before the experiment ends


class Experiment:
    """A change on trial, for at most 2 * MOST_PAIRS windows."""

    def __init__(self, change: Change) -> None:
        self.change = change
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
        """The value for the next window. After the verdict, it is final."""
        if self.verdict is not None:
            return self.change.old if self.taken_back else self.change.new
        return self.change.new if self._order[0 if self._half is None else 1] else self.change.old

    @property
    def taken_back(self) -> bool:
        """Whether the old value applies again."""
        if self.verdict is ChangeVerdict.NEUTRAL:
            return self._gain < _WORSE
        return self.verdict is ChangeVerdict.HURT

    @property
    def _gain(self) -> float:
        return math.expm1(median(self._differences)) if self._differences else 0.0

    def saw(self, window: FigureWindow) -> None:
        """Add the window that ended, in which ``value`` applied."""
        if self.verdict is not None:
            return
        if self._half is None:
            self._half = window
            return
        first, self._half = self._half, None
        new, old = (first, window) if self._order[0] else (window, first)
        self._order = self._toss()
        self._compare(old, new)

    def _compare(self, old: FigureWindow, new: FigureWindow) -> None:
        difference = log_ratio(new.items_per_second, old.items_per_second)
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
        pairs = self._differences
        if hurt(pairs) or (len(pairs) >= GUARD_PAIRS and max(pairs[-GUARD_PAIRS:]) < math.log(GUARD_RATIO)):
            return ChangeVerdict.HURT
        if helped(pairs):
            return ChangeVerdict.HELPED
        return ChangeVerdict.NEUTRAL if len(pairs) >= MOST_PAIRS else None

    def _toss(self) -> tuple[bool, bool]:
        """Return for both windows of a pair whether the new value applies."""
        first = self._coin.random() < 0.5
        return first, not first

    def outcome(self, at: float) -> ChangeOutcome | None:
        """Return the outcome, dated ``at``. None before the verdict."""
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

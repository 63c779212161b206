"""Tunes one number of one workload: searches, proves what it found, and looks after it. No clock: windows are time.

It begins with what is in force, and spends no more on trying than stoker_tuning.learning.loss_budget allows. What the
search finds becomes a Change only by an Experiment of its own, with fresh windows: the best of several looks better
than it is. After that a pair of windows now and then compares it with the value that was in force at first, and does so
at once when what is read falls. What hurts by then is taken back. After a rest the search begins anew.
"""

import math
import random
from collections import deque
from collections.abc import Callable
from statistics import median

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict
from stoker_tuning.learning.experiment import Experiment
from stoker_tuning.learning.halving_search import STEP, HalvingSearch, around, candidates, finer
from stoker_tuning.learning.loss_budget import LossBudget
from stoker_tuning.learning.windows import FigureWindow
from stoker_tuning.recommend.knobs import Knob

# Windows between two looks at what was adopted, and windows of rest after a search; each rest is twice the one before.
CHECK_EVERY, REST, MOST_REST = 32, 200, 6400
# A fall: below this share of the median of the last windows, so many times in a row.
_FALL, _FALLS, _REMEMBERED = 0.8, 2, 16
_MOST_OUTCOMES = 16
# A pair in which the adopted value reads less than this share of the other's is followed by another one at once.
_DOUBTFUL = 0.95
# What is expected, at the worst, of a candidate: this share of what its nearest neighbour read.
_CAUTION = 0.5

ChangeMaker = Callable[[float, float], Change]


class KnobTuner:
    """The tuner of one knob.

    ``start``: the value in force, which is what it may not be worse than. ``change``: makes the Change from one value
    to another. ``seed``: of the coins. ``adopted``: what was found before, which is looked after and not looked for;
    None: nothing was. ``outcomes``: for whoever keeps them, who empties it; the last few only.
    """

    def __init__(self, knob: Knob, start: float, change: ChangeMaker, seed: str, adopted: float | None = None) -> None:
        self._knob = knob
        self._change = change
        self._coin = random.Random(seed)
        self._start = start
        self._budget = LossBudget()
        self.adopted = start if adopted is None else adopted
        self.outcomes: deque[ChangeOutcome] = deque(maxlen=_MOST_OUTCOMES)
        self._step = STEP
        self._search: HalvingSearch | None = self._searching(candidates(knob)) if adopted is None else None
        self._proof: Experiment | None = None
        self._watch = _Watch(None if self.adopted == start else self._compared())
        self._rest, self._waited = REST, 0

    @property
    def value(self) -> float:
        """The value to be in force in the next window."""
        if self._search is not None:
            arm = self._search.upcoming
            return self.adopted if arm is None or not self._affordable(self._search, arm) else arm
        if self._proof is not None:
            return float(self._proof.value) if self._budget.allows(_CAUTION) else self.adopted
        return float(self._watch.trial.value) if self._watch.trial and self._watch.due else self.adopted

    @property
    def settled(self) -> bool:
        """Whether nothing is being tried now."""
        return self._search is None and self._proof is None

    def saw(self, window: FigureWindow, at: float) -> None:
        """Take the window that ended at ``at`` (seconds since the epoch), in which ``value`` was in force."""
        if self._search is not None:
            self._searched(self._search, window.items_per_second)
        elif self._proof is not None:
            self._proved(self._proof, window, at)
        else:
            self._looked_after(window, at)

    def _searching(self, arms: list[float]) -> HalvingSearch | None:
        others = [arm for arm in arms if arm != self.adopted]
        return HalvingSearch(others, self._coin) if others else None

    def _affordable(self, search: HalvingSearch, arm: float) -> bool:
        """Tell whether a candidate may be tried now, by what is known of it or of its nearest neighbour."""
        tried = search.tried
        if arm in tried:
            return self._budget.allows(min(1.0, tried[arm]))
        nearest = min([self.adopted, *tried], key=lambda other: abs(_size(other) - _size(arm)))
        return self._budget.allows(_CAUTION * min(1.0, tried.get(nearest, 1.0)))

    def _searched(self, search: HalvingSearch, rate: float) -> None:
        arm = search.upcoming
        if arm is not None and not self._affordable(search, arm):
            self._budget.idle()
            search.usual = rate
            return
        if arm is None:
            self._budget.idle()
        elif search.usual > 0:
            self._budget.tried(rate / search.usual)
        search.saw(rate)
        if search.done:
            self._search = None
            self._prove(search.best)

    def _prove(self, best: float | None) -> None:
        if best is None:
            self._refine()
        else:
            self._proof = Experiment(self._change(self.adopted, best), keep_neutral=False)

    def _proved(self, proof: Experiment, window: FigureWindow, at: float) -> None:
        on_trial = self.value != self.adopted
        if on_trial is not (proof.value != self.adopted):
            self._budget.idle()  # it could not be afforded, so that no pair is made of this
            return
        pairs = proof.pairs
        proof.saw(window)
        if proof.pairs == pairs:
            self._budget.idle()
        elif proof.last_ratio is not None:
            self._budget.tried(proof.last_ratio)
        outcome = proof.outcome(at)
        if outcome is None:
            return
        self._proof = None
        self.outcomes.append(outcome)
        if outcome.verdict is ChangeVerdict.HELPED:
            self.adopted = float(proof.change.new)
        self._refine()

    def _refine(self) -> None:
        """Search nearer to the best so far, or rest when that is near enough."""
        self._step = finer(self._step)
        self._search = self._searching(around(self._knob, self.adopted, self._step))
        if self._search is None:
            self._watch = _Watch(None if self.adopted == self._start else self._compared())
            self._waited = 0

    def _compared(self) -> Experiment:
        return Experiment(self._change(self._start, self.adopted))

    def _looked_after(self, window: FigureWindow, at: float) -> None:
        self._budget.idle()
        self._waited += 1
        outcome = self._watch.saw(window, at)
        if outcome is not None and outcome.verdict is ChangeVerdict.HURT:
            self.outcomes.append(outcome)
            self.adopted = self._start
            self._watch = _Watch()
        elif outcome is not None:
            self._watch.trial = self._compared()
        if self._waited >= self._rest and not self._watch.due:
            self._rest = min(MOST_REST, 2 * self._rest)
            self._step = STEP
            self._search = self._searching(candidates(self._knob))


class _Watch:
    """Looks after a value that was adopted. ``trial``: its comparison with the first one; ``due``: a pair is wanted."""

    def __init__(self, trial: Experiment | None = None) -> None:
        self.trial = trial
        self._windows = 0
        self._falls = 0
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        self.due = False

    def saw(self, window: FigureWindow, at: float) -> ChangeOutcome | None:
        """Take a window; return what the comparison came to, when it did."""
        if self.trial is None:
            return None
        if self.due:
            return self._paired(self.trial, window, at)
        self._windows += 1
        rate = window.items_per_second
        self._falls = self._falls + 1 if self._recent and rate < _FALL * median(self._recent) else 0
        self._recent.append(rate)
        self.due = self._falls >= _FALLS or self._windows >= CHECK_EVERY
        return None

    def _paired(self, trial: Experiment, window: FigureWindow, at: float) -> ChangeOutcome | None:
        pairs = trial.pairs
        trial.saw(window)
        if trial.pairs > pairs and trial.last_ratio is not None:
            self.due = trial.last_ratio < _DOUBTFUL and trial.verdict is None
            self._windows = self._falls = 0
            self._recent.clear()
        return trial.outcome(at)


def _size(value: float) -> float:
    return math.log1p(value)

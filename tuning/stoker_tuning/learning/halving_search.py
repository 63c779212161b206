"""Finds the best of a few values of a knob: sequential halving (Karnin, Koren and Somekh 2013), in blocks.

A block is one window of the value in force and then one of each candidate, in an order that a coin chooses: what
drifts by itself does so for all. After each round the better half of the candidates goes on, for twice as many blocks.
No shape of the response is assumed, and how many windows it takes is known before.
"""

import math
import random
from collections.abc import Sequence
from statistics import fmean

from stoker_tuning.learning.paired_test import log_ratio
from stoker_tuning.recommend.knobs import KIB, Knob, KnobKind

# Blocks of each round. A candidate that reads less than this share of the usual in the mean is left out at once.
_BLOCKS = (2, 4, 6)
_GIVEN_UP = math.log(0.7)
_MOST_LOG = math.log(1e4)  # so that those are told apart that are all much better than a bad beginning
# From candidate to candidate, at first, and how near the last ones are.
STEP, _FINEST = 4.0, 1.4
_SMALLEST_BYTES, _PAGE = 64 * KIB, 4 * KIB


def candidates(knob: Knob) -> list[float]:
    """Return the values to begin with: from the least to the most, each four times the one before."""
    value = knob.least or (_SMALLEST_BYTES if knob.kind is KnobKind.BYTES else 1)
    found = []
    while value <= knob.most:
        found.append(rounded(knob, value))
        value *= STEP
    return found


def rounded(knob: Knob, value: float) -> float:
    """Return the nearest value that the knob takes."""
    within = max(knob.least, min(knob.most, value))
    if knob.kind is KnobKind.BYTES:
        return round(within / _PAGE) * _PAGE
    return round(within) if knob.kind is KnobKind.COUNT else within


def finer(step: float) -> float:
    """Return the step of the next search, which is nearer to the best so far."""
    return math.sqrt(step)


def around(knob: Knob, best: float, step: float) -> list[float]:
    """Return the neighbours of the best value so far; none when they would be too near to tell apart."""
    if step < _FINEST or best <= 0:
        return []
    return list(dict.fromkeys(rounded(knob, value) for value in (best * step, best / step)))


class HalvingSearch:
    """A search among candidates, against the value in force. ``best``: the one to take; None: none is better."""

    def __init__(self, arms: Sequence[float], coin: random.Random) -> None:
        self._coin = coin
        self._arms = list(arms)
        self._round = 0
        self._blocks = 0
        self._logs: dict[float, list[float]] = {arm: [] for arm in arms}
        self.usual = 0.0  # items a second under the value in force, in its last window
        self._queue: list[float | None] = []
        self.best: float | None = None
        self.done = not arms
        self._next_block()

    @property
    def upcoming(self) -> float | None:
        """The candidate of the next window; None: the value in force."""
        return self._queue[0] if self._queue else None

    @property
    def tried(self) -> dict[float, float]:
        """The candidates that were tried: items a second over those of the value in force."""
        return {arm: math.exp(fmean(logs)) for arm, logs in self._logs.items() if logs}

    def saw(self, items_per_second: float) -> None:
        """Take the window of ``upcoming``."""
        if self.done:
            return
        arm = self._queue.pop(0)
        if arm is None:
            self.usual = items_per_second
        else:
            difference = log_ratio(items_per_second, self.usual, most=_MOST_LOG)
            if difference is not None:
                self._logs[arm].append(difference)
        if not self._queue:
            self._end_block()

    def _end_block(self) -> None:
        self._arms = [arm for arm in self._arms if self._mean(arm) >= _GIVEN_UP]
        self._blocks += 1
        if self._blocks >= _BLOCKS[min(self._round, len(_BLOCKS) - 1)]:
            self._end_round()
        self._next_block()

    def _end_round(self) -> None:
        ranked = sorted(self._arms, key=self._mean, reverse=True)
        if len(ranked) <= 1 or self._round >= len(_BLOCKS) - 1:
            self._arms, self.done = ranked[:1], True
            return
        self._arms = ranked[: math.ceil(len(ranked) / 2)]
        self._round, self._blocks = self._round + 1, 0
        self.done = len(self._arms) == 1  # there is nothing left to choose from; a proof of its own follows

    def _next_block(self) -> None:
        self.done = self.done or not self._arms
        if self.done:
            best = max(self._arms, key=self._mean, default=None)
            self.best = best if best is not None and self._mean(best) > 0 else None
            self._queue = []
            return
        order = list(self._arms)
        self._coin.shuffle(order)
        self._queue = [None, *order]

    def _mean(self, arm: float) -> float:
        return fmean(self._logs[arm]) if self._logs[arm] else 0.0

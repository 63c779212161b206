"""How often a rule's changes helped, by access pattern.

Each namespace's Datasets count separately: a tenant whose pods make a rule look bad affects no other tenant.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict
from stoker_tuning.vocabulary import AccessPattern

MOST_RATES = 512
_WIDTH = 1.96  # standard errors, for 95 %
_HOPELESS = 0.5


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """The results of one rule's changes on one pattern: the number of changes, and of those that helped and hurt."""

    changes: int = 0
    helped: int = 0
    hurt: int = 0

    @property
    def rate(self) -> float:
        """Mean of the Beta posterior of helping, from a uniform prior: one half without data."""
        return (self.helped + 1) / (self.changes + 2)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the share that helps, at 95 %."""
        return wilson(self.helped, self.changes)

    @property
    def hopeless(self) -> bool:
        """True if it hurts more often than not, by Wilson's lower limit at 95 %."""
        return wilson(self.hurt, self.changes)[0] > _HOPELESS

    def plus(self, verdict: ChangeVerdict) -> "SuccessRate":
        """Return the rate with one more outcome."""
        helped, hurt = verdict is ChangeVerdict.HELPED, verdict is ChangeVerdict.HURT
        return SuccessRate(self.changes + 1, self.helped + helped, self.hurt + hurt)


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's interval of a share, at 95 %."""
    if not trials:
        return 0.0, 1.0
    share, squared = successes / trials, _WIDTH**2
    center = (share + squared / (2 * trials)) / (1 + squared / trials)
    half = _WIDTH * math.sqrt(share * (1 - share) / trials + squared / (4 * trials**2)) / (1 + squared / trials)
    return max(0.0, center - half), min(1.0, center + half)


class RateKey(NamedTuple):
    """The key of a rate: the namespace of the Datasets, the rule (or other origin of the change), and the pattern."""

    namespace: str
    origin: str
    pattern: AccessPattern


def rate_key(change: Change) -> RateKey:
    """Return the key under which a change counts."""
    return RateKey(change.dataset.partition("/")[0], change.origin, change.pattern)


class SuccessRates:
    """The MOST_RATES rates with the latest outcomes."""

    def __init__(self) -> None:
        self._rates: OrderedDict[RateKey, SuccessRate] = OrderedDict()

    def add(self, outcome: ChangeOutcome) -> None:
        """Count an outcome."""
        key = rate_key(outcome.change)
        self._rates[key] = self.of(key).plus(outcome.verdict)
        self._rates.move_to_end(key)
        if len(self._rates) > MOST_RATES:
            self._rates.popitem(last=False)

    def of(self, key: RateKey) -> SuccessRate:
        """Return the rate of a rule on a pattern."""
        return self._rates.get(key, SuccessRate())

    def rows(self) -> list[tuple[RateKey, SuccessRate]]:
        """Return all rates, by namespace and rule."""
        return sorted(self._rates.items())

"""The test that tells whether a change helped: pairs of windows, one under the old value and one under the new one.

Sequential testing by betting (Ville 1939; Ramdas, Ruf, Larsson and Koolen 2020). Of each pair comes d, the logarithm of
the new value's items a second over the old one's. If the change did nothing but multiply by exp(m), and a coin chose
which of the two came first, d - m is as likely to be positive as negative with the same size, and 1 + tanh(k (d - m))
is a fair bet for every k. Whoever bets so against m multiplies his money by 20 at any time with a chance of 1 in 20 at
most: so it may be looked at after each pair, and no spread of the figures has to be known or of any certain shape.
"""

import math
from collections.abc import Sequence

# Chances of an error: that what does nothing is said to help, or to hurt. A wrong "hurt" costs a chance, no throughput.
HELPED_ERROR, HURT_ERROR = 0.05, 0.1
# How boldly is betted; the money is spread over all of them. In 1 / logarithm: 2 for changes by half, 32 for 3 %.
_STAKES = (2.0, 8.0, 32.0)
MOST_PAIRS = 24
# Logarithms beyond these count as these: a window in which nothing at all was read has none.
_MOST = math.log(8.0)
_HALVINGS = 40


def log_ratio(new: float, old: float, most: float = _MOST) -> float | None:
    """Return the logarithm of ``new / old``, of items a second; None where nothing was read in either window."""
    if new <= 0 and old <= 0:
        return None
    if new <= 0 or old <= 0:
        return most if new > 0 else -most
    return max(-most, min(most, math.log(new / old)))


def log_money(differences: Sequence[float], center: float, side: int) -> float:
    """Return the logarithm of what one has who betted 1 that all lie above (``side`` 1) or below (-1) ``center``."""
    logs = [
        sum(math.log1p(math.tanh(side * stake * (each - center)) * 0.999999) for each in differences)
        for stake in _STAKES
    ]
    most = max(logs)
    return most + math.log(sum(math.exp(each - most) for each in logs) / len(logs))


def helped(differences: Sequence[float]) -> bool:
    """Tell whether what was changed made more of it, with an error of 5 % at most however often it is asked."""
    return log_money(differences, 0.0, 1) >= -math.log(HELPED_ERROR)


def hurt(differences: Sequence[float]) -> bool:
    """Tell whether what was changed made less of it, with an error of 10 % at most however often it is asked."""
    return log_money(differences, 0.0, -1) >= -math.log(HURT_ERROR)


def interval(differences: Sequence[float], error: float = HELPED_ERROR) -> tuple[float, float]:
    """Return the shares of gain between which the true one lies, but for this error on each side, at any time."""
    return math.expm1(_limit(differences, 1, error)), math.expm1(_limit(differences, -1, error))


def _limit(differences: Sequence[float], side: int, error: float) -> float:
    """Return the farthest center that is refuted, from outside; the money falls steadily as the center goes inward."""
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

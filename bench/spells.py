"""What readers lose around spells in which they are looked at: each is held against the moments beside it. Pure.

The speed of a virtual machine changes by a tenth within seconds, so runs with and without an observer tell nothing
of 1 %. What is beside a spell in time was read at the same speed; where the machine stood still for a moment just then,
the median over spells leaves it out.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

# Seconds before and after a spell that count to it: until marks were seen to be on; while what was seen is told.
_BEFORE, _AFTER = 0.02, 0.1
# Seconds on each side that it is held against.
_BESIDE = 0.3
# Seconds after a spell at which nothing happens: the method is tried there.
_CALM = 1.0
_FEWEST = 5
# A median's standard error, of samples that are normally distributed, by their median distance from it.
_ERROR = 1.2533 * 1.4826


class Moment(NamedTuple):
    """How many files were read until then (monotonic clock), and whether marks were on."""

    seconds: float
    files: int
    marked: bool


@dataclass(frozen=True)
class Loss:
    """Of all files that would have been read, how many were not, in percent.

    By the median of ``spells``. ``error``: two standard errors. ``calm``: the same figure where marks were off, which
    should be none; None where it is not known. ``marked``: percent of the time.
    """

    percent: float
    error: float
    calm: float | None
    spells: int
    marked: float


def spells(moments: Sequence[Moment]) -> list[tuple[float, float]]:
    """Return from when to when marks were on, of spells that were seen from their beginning to their end."""
    found = []
    begun: float | None = None
    for before, after in pairwise(moments):
        if after.marked and not before.marked:
            begun = before.seconds
        if before.marked and not after.marked and begun is not None:
            found.append((begun, after.seconds))
            begun = None
    return found


def lost(moments: Sequence[Moment]) -> Loss | None:
    """Return what spells cost; None where there are too few with nothing else beside them."""
    found = spells(moments)
    missing = [files for begin, end in found if (files := _missing(moments, found, begin, end, 0.0)) is not None]
    if len(missing) < _FEWEST:
        return None
    calm = [files for begin, end in found if (files := _missing(moments, found, begin, end, _CALM)) is not None]
    first, last = moments[0], moments[-1]
    usual = median(missing)
    total = last.files - first.files + len(found) * usual
    whole = 100 * len(found) / total  # percent of all, for what one spell misses
    apart = median(abs(one - usual) for one in missing)
    return Loss(
        percent=whole * usual,
        error=2 * whole * _ERROR * apart / len(missing) ** 0.5,
        calm=whole * median(calm) if calm else None,
        spells=len(missing),
        marked=100 * sum(end - begin for begin, end in found) / (last.seconds - first.seconds),
    )


def _missing(
    moments: Sequence[Moment], found: Sequence[tuple[float, float]], begin: float, end: float, later: float
) -> float | None:
    """Return the files that were not read in a spell, or so much later; None where another one is beside it."""
    since, until = begin - _BEFORE + later, end + _AFTER + later
    first, last = since - _BESIDE, until + _BESIDE
    others = (one for one in found if later or one != (begin, end))
    if first < moments[0].seconds or last > moments[-1].seconds or any(a < last and b > first for a, b in others):
        return None
    within = _files(moments, until) - _files(moments, since)
    beside = _files(moments, last) - _files(moments, first) - within
    return beside / (2 * _BESIDE) * (until - since) - within


def _files(moments: Sequence[Moment], seconds: float) -> float:
    at = min(max(1, bisect_left(moments, seconds, key=lambda moment: moment.seconds)), len(moments) - 1)
    before, after = moments[at - 1], moments[at]
    share = (seconds - before.seconds) / (after.seconds - before.seconds)
    return before.files + share * (after.files - before.files)

"""The loss of readers in spells of observation, compared with the time directly around each spell. Pure.

The speed of a virtual machine changes by a tenth within seconds, so separate runs with and without an observer cannot
show 1 %. Time next to a spell has the same speed. The median over spells excludes brief stops of the machine.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

# Seconds before and after a spell that count to it: marks are seen with a delay, and reports follow a spell.
_BEFORE, _AFTER = 0.02, 0.1
# Seconds of comparison on each side.
_BESIDE = 0.3
# Seconds after a spell without events, to validate the method.
_CALM = 1.0
_FEWEST = 5
# A median's standard error, for normally distributed samples, from their median absolute deviation.
_ERROR = 1.2533 * 1.4826


class Moment(NamedTuple):
    """The number of files read until then (monotonic clock), and whether marks were on."""

    seconds: float
    files: int
    marked: bool


@dataclass(frozen=True)
class Loss:
    """The share of files that were not read because of spells, in percent.

    It is the median of ``spells``. ``error`` is two standard errors. ``calm`` is the same figure without marks, which
    should be zero, or None if unknown. ``marked`` is the percentage of time with marks.
    """

    percent: float
    error: float
    calm: float | None
    spells: int
    marked: float


def spells(moments: Sequence[Moment]) -> list[tuple[float, float]]:
    """Return the start and end of spells that were observed completely."""
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
    """Return the cost of spells. None if too few are clear of other spells."""
    found = spells(moments)
    missing = [files for begin, end in found if (files := _missing(moments, found, begin, end, 0.0)) is not None]
    if len(missing) < _FEWEST:
        return None
    calm = [files for begin, end in found if (files := _missing(moments, found, begin, end, _CALM)) is not None]
    first, last = moments[0], moments[-1]
    usual = median(missing)
    total = last.files - first.files + len(found) * usual
    whole = 100 * len(found) / total  # percent of all files, for the loss of one spell
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
    """Return the files not read in a spell, or at this offset after it. None if another spell is too close."""
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

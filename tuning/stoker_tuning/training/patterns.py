"""In which order a workload reads, judged from its last accesses (100 by default) by statistics that are said."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from stoker_tuning.training.order_statistics import followed, frequent_step, rank_correlation, runs_score
from stoker_tuning.vocabulary import AccessPattern

WINDOW = 100  # accesses
_FEWEST = 8  # below so many nothing is said
_MEMORY = 16  # readers that may take turns
_IN_ORDER = 0.8  # share of accesses that go on where a reader was
_SOME_ORDER = 0.4
_FAR = 4 * WINDOW  # units ahead of all that was read: further is no order, however many readers take turns


class Touch(NamedTuple):
    """An access as patterns see it: its unit; its bytes; ``within``: its reader stays in the file that it read."""

    unit: int
    offset: int
    end: int
    reader: int
    within: bool


@dataclass(frozen=True)
class PatternJudgement:
    """A pattern, how sure (0 to 1), and why.

    ``rank_correlation``: Spearman's, of time and manifest position. ``runs``: standard deviations of the runs up and
    down from those of a shuffled order. ``followed``: share of units that come soon after the one before them.
    ``step``: the most frequent step of a reader, in units, or in bytes within a file; ``step_share``: its share.
    """

    pattern: AccessPattern
    confidence: float
    rank_correlation: float = 0.0
    runs: float = 0.0
    followed: float = 0.0
    step: int = 0
    step_share: float = 0.0


def judge(touches: Sequence[Touch], begun: Sequence[Touch], units: int) -> PatternJudgement:
    """Judge the order of the last accesses to data of so many units; ``begun``: the last that began with a file.

    Where few of the last accesses begin with a file, it is the order within files that counts.
    """
    if len(touches) < _FEWEST:
        return PatternJudgement(AccessPattern.UNKNOWN, 0.0)
    inside = sum(touch.within for touch in touches)
    if len(touches) - inside < _FEWEST and inside >= _FEWEST:
        return _within_files(touches)
    return _among_files(begun, units)


def _within_files(touches: Sequence[Touch]) -> PatternJudgement:
    """Judge reads that stay in their files: by their offsets, for each reader."""
    ends: dict[int, int] = {}
    on = inside = 0
    offsets: dict[int, list[int]] = defaultdict(list)
    for touch in touches:
        if touch.within and touch.reader in ends:
            inside += 1
            on += ends[touch.reader] == touch.offset
        ends[touch.reader] = touch.end
        offsets[touch.reader].append(touch.offset)
    share = on / max(1, inside)
    step, step_share = _frequent_steps(list(offsets.values()))
    sure = _by_number(inside)
    if share >= _IN_ORDER:
        return PatternJudgement(AccessPattern.SEQUENTIAL, round(share * sure, 3), step=step, step_share=step_share)
    if step and step_share >= _IN_ORDER:
        return PatternJudgement(AccessPattern.STRIDED, round(step_share * sure, 3), step=step, step_share=step_share)
    return PatternJudgement(AccessPattern.RANDOM, round((1 - share) * sure, 3), step=step, step_share=step_share)


def _among_files(touches: Sequence[Touch], units: int) -> PatternJudgement:
    """Judge reads of one unit after the other."""
    if len(touches) < _FEWEST:
        return PatternJudgement(AccessPattern.UNKNOWN, 0.0)
    positions = [touch.unit for touch in touches]
    by_reader: dict[int, list[int]] = defaultdict(list)
    for touch in touches:
        by_reader[touch.reader].append(touch.unit)
    near, heads = followed(positions, _MEMORY)
    step, step_share = _frequent_steps(list(by_reader.values()))
    correlation = rank_correlation(positions)
    pattern, confidence = _pattern(positions, near, heads, (step, step_share), units, correlation)
    return PatternJudgement(
        pattern,
        round(confidence * _by_number(len(touches)), 3),
        round(correlation, 3),
        round(runs_score(positions), 2),
        round(near, 3),
        step,
        round(step_share, 3),
    )


def _pattern(
    positions: Sequence[int],
    near: float,
    heads: Sequence[int],
    step: tuple[int, float],
    units: int,
    correlation: float,
) -> tuple[AccessPattern, float]:
    """Name the order: in order by followers, in groups by their heads, strided by steps, else shuffled."""
    chance = min(1.0, _MEMORY / max(1, units))
    if near >= max(_IN_ORDER, chance):
        return (AccessPattern.BATCH, near) if _scattered(positions, heads) else (AccessPattern.SEQUENTIAL, near)
    if step[0] not in (0, 1) and step[1] >= _IN_ORDER:
        return AccessPattern.STRIDED, step[1]
    if near >= _SOME_ORDER + chance:
        return AccessPattern.BATCH, near
    deviations = abs(correlation) * sqrt(len(positions) - 1)
    order = max(0.0, near - chance)
    return AccessPattern.SHUFFLED, (1 - order) * (1.0 if deviations < 3 else 0.5)


def _scattered(positions: Sequence[int], heads: Sequence[int]) -> bool:
    """Tell whether runs begin anywhere, not where others have left off; one return to the start is none.

    The first accesses of the window are left out: what they follow was before it.
    """
    begins, furthest, jumps = set(heads), max(positions[:_MEMORY]), 0
    for position in positions[_MEMORY:]:
        if position in begins and not furthest - _MEMORY <= position <= furthest + _FAR:
            jumps += 1
            furthest = position
        furthest = max(furthest, position)
    return jumps >= 2


def _frequent_steps(readers: Sequence[Sequence[int]]) -> tuple[int, float]:
    """Return the frequent step of the reader with the most accesses."""
    return frequent_step(max(readers, key=len)) if readers else (0, 0.0)


def _by_number(count: int) -> float:
    """Weigh evidence by its number: 0.44 for 8 accesses, 0.91 for 100."""
    return count / (count + 10)

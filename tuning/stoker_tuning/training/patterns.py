"""Judges the order of a workload's reads from its last accesses (100 by default), with the statistics behind it."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from stoker_tuning.vocabulary import AccessPattern


def rank_correlation(positions: Sequence[int]) -> float:
    """Return Spearman's correlation of the order in time with the positions, -1 to 1; 0 for fewer than three.

    For a shuffled order of n it is near 0, with a standard deviation of 1 / sqrt(n - 1).
    """
    count = len(positions)
    if count < 3:
        return 0.0
    ranks = [0] * count
    for rank, index in enumerate(sorted(range(count), key=positions.__getitem__)):
        ranks[index] = rank
    apart = sum((rank - index) ** 2 for index, rank in enumerate(ranks))
    return 1 - 6 * apart / (count * (count * count - 1))


def runs_score(positions: Sequence[int]) -> float:
    """Return the distance of the runs up and down from those of a shuffled order, in standard deviations.

    Negative: fewer and longer runs, as in order. A shuffled order of n has (2n - 1) / 3 runs with a variance of (16n -
    29) / 90.
    """
    ups = [after > before for before, after in itertools.pairwise(positions) if after != before]
    count = len(ups) + 1
    if count < 4:
        return 0.0
    runs = 1 + sum(up is not following for up, following in itertools.pairwise(ups))
    return (runs - (2 * count - 1) / 3) / sqrt((16 * count - 29) / 90)


def frequent_step(positions: Sequence[int]) -> tuple[int, float]:
    """Return the most frequent step between consecutive positions, and its share of all steps; (0, 0) without steps."""
    steps = Counter(after - before for before, after in itertools.pairwise(positions))
    if not steps:
        return 0, 0.0
    step, times = steps.most_common(1)[0]
    return step, times / (len(positions) - 1)


def followed(positions: Sequence[int], memory: int = 16) -> tuple[float, list[int]]:
    """Return the share of positions within ``memory`` steps after their predecessor, and a list of the rest."""
    heads, last = list[int](), dict[int, int]()
    for index, position in enumerate(positions):
        if last.get(position - 1, -memory - 1) < index - memory:
            heads.append(position)
        last[position] = index
    return (1 - len(heads) / len(positions) if positions else 0.0), heads


WINDOW = 100  # accesses
_FEWEST = 8  # with fewer accesses there is no judgement
_MEMORY = 16  # readers that may take turns
_IN_ORDER = 0.8  # share of accesses that continue a reader's last one
_SOME_ORDER = 0.4
_FAR = 4 * WINDOW  # units ahead of all reads so far: a longer jump is no order, with any number of readers


class Touch(NamedTuple):
    """An access for the pattern: its unit and bytes; ``within``: the reader stays in the file of its last access."""

    unit: int
    offset: int
    end: int
    reader: int
    within: bool


@dataclass(frozen=True)
class PatternJudgement:
    """A pattern, its confidence (0 to 1), and its statistics.

    ``rank_correlation``: Spearman's, between time and manifest position. ``runs``: distance of the runs up and down
    from those of a shuffled order, in standard deviations. ``followed``: share of units that come soon after their
    predecessor. ``step``: the most frequent step of a reader, in units, or in bytes within a file; ``step_share``: its
    share.
    """

    pattern: AccessPattern
    confidence: float
    rank_correlation: float = 0.0
    runs: float = 0.0
    followed: float = 0.0
    step: int = 0
    step_share: float = 0.0


def judge(touches: Sequence[Touch], begun: Sequence[Touch], units: int) -> PatternJudgement:
    """Judge the order of the last accesses to ``units`` units; ``begun``: the last accesses that began with a file.

    If few of the last accesses begin with a file, the order within files decides.
    """
    if len(touches) < _FEWEST:
        return PatternJudgement(AccessPattern.UNKNOWN, 0.0)
    inside = sum(touch.within for touch in touches)
    if len(touches) - inside < _FEWEST and inside >= _FEWEST:
        return _within_files(touches)
    return _among_files(begun, units)


def _within_files(touches: Sequence[Touch]) -> PatternJudgement:
    """Judge reads that stay in their files, by the offsets of each reader."""
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
    """Judge the order of units."""
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
    """Return the order and its confidence: by followers, by heads of groups, by steps, else shuffled."""
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
    """Return True if runs begin at random places, not where earlier runs ended. One return to the start is allowed.

    The first accesses of the window are ignored, because they may follow earlier ones.
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
    """Weigh evidence by its amount: 0.44 for 8 accesses, 0.91 for 100."""
    return count / (count + 10)

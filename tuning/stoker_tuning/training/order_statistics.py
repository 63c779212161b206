"""Statistics of an order of numbers: rank correlation, runs up and down, neighbours, the step that is most frequent."""

import itertools
from collections import Counter
from collections.abc import Sequence
from math import sqrt


def rank_correlation(positions: Sequence[int]) -> float:
    """Return Spearman's correlation of the order in time with the positions, -1 to 1; 0 for fewer than three.

    In a shuffled order of n it lies around 0 with a standard deviation of 1 / sqrt(n - 1).
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
    """Return how many standard deviations the runs up and down are from what a shuffled order has.

    Negative: fewer and longer runs, as in order. A shuffled order of n has (2n - 1) / 3 runs with a variance of
    (16n - 29) / 90.
    """
    ups = [after > before for before, after in itertools.pairwise(positions) if after != before]
    count = len(ups) + 1
    if count < 4:
        return 0.0
    runs = 1 + sum(up is not following for up, following in itertools.pairwise(ups))
    return (runs - (2 * count - 1) / 3) / sqrt((16 * count - 29) / 90)


def frequent_step(positions: Sequence[int]) -> tuple[int, float]:
    """Return the step between neighbours in time that is most frequent, and its share of all steps; (0, 0): none."""
    steps = Counter(after - before for before, after in itertools.pairwise(positions))
    if not steps:
        return 0, 0.0
    step, times = steps.most_common(1)[0]
    return step, times / (len(positions) - 1)


def followed(positions: Sequence[int], memory: int = 16) -> tuple[float, list[int]]:
    """Return the share of positions that come within ``memory`` steps after the one before them, and the others.

    Readers that take turns each go on where they were; so this is near 1 in order, also for several readers.
    """
    heads, last = list[int](), dict[int, int]()
    for index, position in enumerate(positions):
        if last.get(position - 1, -memory - 1) < index - memory:
            heads.append(position)
        last[position] = index
    return (1 - len(heads) / len(positions) if positions else 0.0), heads

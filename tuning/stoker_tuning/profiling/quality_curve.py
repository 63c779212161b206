"""Time and coverage of epochs that each read a share of the samples: stoker-client's QualityRatioSampler. Pure."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil

Progress = tuple[tuple[float, float], ...]
RATIOS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
_EPOCHS = 4  # reported one by one: after them a ratio of 0.25 has read all samples


@dataclass(frozen=True, slots=True)
class QualityPoint:
    """The results of a ``ratio`` of samples per epoch.

    ``seconds``: of each of the first epochs, from a cold start. ``warm_seconds``: of an epoch after all samples were
    read. ``coverage``: share of the samples read at least once after each of these epochs. ``epochs_to_all``: epochs
    until all samples were read. ``seconds_to_all``: their time.
    """

    ratio: float
    seconds: tuple[float, ...]
    warm_seconds: float
    coverage: tuple[float, ...]
    epochs_to_all: int
    seconds_to_all: float


def quality_curve(
    cold: float,
    warm: float,
    compute: float = 0.0,
    first: float = 0.0,
    progress: Progress = (),
    ratios: tuple[Fraction, ...] = RATIOS,
) -> tuple[QualityPoint, ...]:
    """Return a point for each ratio.

    ``cold`` and ``warm``: seconds of a whole epoch; ``compute``: of the accelerator alone; ``first``: until the first
    batch. ``progress``: shares of a cold epoch, each with the seconds after which it was done; empty: evenly.

    The sampler reads all samples before it repeats one. So an epoch has new samples while any are left. A new sample
    costs cold time, a repeated one warm time. A cold epoch is slower at first, because data fetched with some samples
    serves later ones. So a share of it takes the time that this share took. Computing begins with the first batch, for
    any number of samples.
    """
    first = max(0.0, min(first, warm - compute, cold - compute))
    return tuple(_point(ratio, ((0.0, 0.0), *progress, (1.0, cold)), warm, compute, first) for ratio in ratios)


def coverage_after(ratio: Fraction, epochs: int) -> Fraction:
    """Return the share of the samples that were read at least once after ``epochs`` epochs."""
    return min(Fraction(1), ratio * epochs)


def _seconds_at(share: float, progress: Progress) -> float:
    """Return the seconds after which a share was done, by linear interpolation."""
    (low, since), (high, until) = next(
        (one, other) for one, other in pairwise(progress) if other[0] >= share or other is progress[-1]
    )
    return since + (until - since) * (share - low) / (high - low) if high > low else until


def _point(ratio: Fraction, cold: Progress, warm: float, compute: float, first: float) -> QualityPoint:
    least = first + float(ratio) * compute

    def seconds(epoch: int) -> float:
        before, after = coverage_after(ratio, epoch - 1), coverage_after(ratio, epoch)
        fetching = _seconds_at(float(after), cold) - _seconds_at(float(before), cold)
        return max(least, fetching + float(ratio - after + before) * warm)

    last = ceil(1 / ratio)
    return QualityPoint(
        ratio=float(ratio),
        seconds=tuple(seconds(epoch) for epoch in range(1, _EPOCHS + 1)),
        warm_seconds=max(least, float(ratio) * warm),
        coverage=tuple(float(coverage_after(ratio, epoch)) for epoch in range(1, _EPOCHS + 1)),
        epochs_to_all=last,
        seconds_to_all=sum(seconds(epoch) for epoch in range(1, last + 1)),
    )

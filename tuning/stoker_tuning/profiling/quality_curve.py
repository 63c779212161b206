"""Time and coverage of epochs that read a share of the samples each: stoker-client's QualityRatioSampler. Pure."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

RATIOS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
_EPOCHS = 4  # told one by one: after them a ratio of 0.25 has read everything


@dataclass(frozen=True, slots=True)
class QualityPoint:
    """A ``ratio`` of samples an epoch, and what comes of it.

    ``seconds``: of the first epochs, one by one, from a cold start. ``warm_seconds``: of one once everything was read.
    ``coverage``: share of the samples that were read at least once after each of these epochs. ``epochs_to_all``: until
    each was read. ``seconds_to_all``: how long that takes.
    """

    ratio: float
    seconds: tuple[float, ...]
    warm_seconds: float
    coverage: tuple[float, ...]
    epochs_to_all: int
    seconds_to_all: float


def quality_curve(
    cold: float, warm: float, compute: float = 0.0, first: float = 0.0, ratios: tuple[Fraction, ...] = RATIOS
) -> tuple[QualityPoint, ...]:
    """Return a point for each ratio.

    ``cold`` and ``warm``: seconds of a whole epoch; ``compute``: of the accelerator alone; ``first``: until the first
    batch.

    The sampler goes through all samples before one comes again, so an epoch has new ones as long as there are any; a
    new one costs what it costs cold, and one that was read before what it costs warm. Computing begins with the first
    batch, however few follow.
    """
    first = max(0.0, min(first, warm - compute, cold - compute))
    return tuple(_point(ratio, cold, warm, compute, first) for ratio in ratios)


def coverage_after(ratio: Fraction, epochs: int) -> Fraction:
    """Return the share of the samples that were read at least once after so many epochs."""
    return min(Fraction(1), ratio * epochs)


def _point(ratio: Fraction, cold: float, warm: float, compute: float, first: float) -> QualityPoint:
    least = first + float(ratio) * compute

    def seconds(epoch: int) -> float:
        new = coverage_after(ratio, epoch) - coverage_after(ratio, epoch - 1)
        return max(least, float(new) * cold + float(ratio - new) * warm)

    last = ceil(1 / ratio)
    return QualityPoint(
        ratio=float(ratio),
        seconds=tuple(seconds(epoch) for epoch in range(1, _EPOCHS + 1)),
        warm_seconds=max(least, float(ratio) * warm),
        coverage=tuple(float(coverage_after(ratio, epoch)) for epoch in range(1, _EPOCHS + 1)),
        epochs_to_all=last,
        seconds_to_all=sum(seconds(epoch) for epoch in range(1, last + 1)),
    )

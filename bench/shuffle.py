"""What a group shuffle is worth and what it costs: requests merged, randomness of its order, accuracy of a training.

The data lie sorted by class, as folders of images do, which is the worst that can happen to a shuffle of groups.
**us a sample**: CPU to yield one. **Merged**: samples read for each chunk that is fetched, by a reader with room for
two reservoirs of chunks that gives back the one unread for longest; a chunk is a group. **Dispersion**: of the classes
in so many samples in a row, the mean of chi-square over its degrees of freedom: 1 for independent draws, more where
some classes come in heaps. **Together**: of the samples that lie side by side, the share that come within one batch of
each other. **Accuracy**: of a network with one hidden layer on scikit-learn's digits, sorted by class, by samples that
were not trained on; mean and standard deviation over the seeds.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler
from stoker_client.randomness import permutation

SAMPLES, SEEDS = 262_144, 5
BATCH, RESERVOIR, CLASSES = 256, 256, 256
GROUPS = (8, 16, 64)  # samples of a group
_LONG = 16  # batches
_DIGITS_BATCH, _DIGITS_RESERVOIR, _DIGITS_EPOCHS = 32, 32, 15
_DIGITS_TESTED = 360
_HIDDEN, _RATE, _MOMENTUM = 64, 0.05, 0.9

Order = NDArray[numpy.int64]


@dataclass(frozen=True)
class ShuffleFigures:
    """Of one kind of order, the mean over the seeds; ``spread`` is the standard deviation of ``dispersion``."""

    order: str
    microseconds: float  # of CPU, to yield a sample
    merged: float
    dispersion: float
    spread: float
    dispersion_long: float
    together: float
    accuracy: float
    accuracy_spread: float


def measure_shuffles(samples: int = SAMPLES, seeds: int = SEEDS, epochs: int = _DIGITS_EPOCHS) -> list[ShuffleFigures]:
    """Measure no shuffle at all, a whole one, and groups of several sizes."""
    return [_measured(group, samples, seeds, epochs) for group in (0, 1, *GROUPS)]


def show_shuffles(figures: Sequence[ShuffleFigures], result: Path) -> str:
    """Write the figures as JSON, and return them as a table."""
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps([asdict(each) for each in figures], indent=1))
    rows = [
        ("order", "us a sample", "merged", f"dispersion of {BATCH}", f"of {BATCH * _LONG:,}", "together", "accuracy")
    ]
    for each in figures:
        dispersion = f"{each.dispersion:.3f} +- {each.spread:.3f}"
        accuracy = f"{each.accuracy:.1%} +- {each.accuracy_spread:.1%}"
        long, together = f"{each.dispersion_long:.2f}", f"{each.together:.2%}"
        rows.append(
            (each.order, f"{each.microseconds:.2f}", f"{each.merged:.1f} : 1", dispersion, long, together, accuracy)
        )
    return "\n".join("  ".join(f"{cell:>17}" for cell in row) for row in rows)


def order_of(group: int, samples: int, seed: int, epoch: int = 0, reservoir: int = RESERVOIR) -> Order:
    """Return the order of an epoch by groups of this size; 1: of single samples, all of them; 0: as they lie."""
    alone: dict[str, Any] = {"seed": seed, "rank": 0, "world_size": 1}
    if group == 0:
        return numpy.arange(samples)
    whole = GlobalShuffleSampler(samples, **alone)
    sampler = whole if group == 1 else GroupShuffleSampler(samples, group, reservoir=reservoir, **alone)
    sampler.set_epoch(epoch)
    return numpy.fromiter(sampler, numpy.int64, samples)


def merged(order: Order, chunk: int, room: int) -> float:
    """Return how many samples are read for each chunk that is fetched."""
    held: dict[int, None] = {}
    fetched = 0
    for one in (order // chunk).tolist():
        if one in held:
            del held[one]
        else:
            fetched += 1
            if len(held) >= room:
                del held[next(iter(held))]
        held[one] = None  # now the one that was read last
    return len(order) / fetched


def dispersion(classes: Order, window: int) -> float:
    """Return the mean of chi-square over its degrees of freedom, for windows of the order."""
    windows = classes[: len(classes) // window * window].reshape(-1, window)
    kinds = int(classes.max()) + 1
    expected = window / kinds
    counts = numpy.stack([numpy.bincount(each, minlength=kinds) for each in windows])
    return float((((counts - expected) ** 2).sum(axis=1) / expected).mean() / (kinds - 1))


def together(order: Order, batch: int) -> float:
    """Return the share of neighbours that come within so many samples of each other."""
    place = numpy.empty_like(order)
    place[order] = numpy.arange(len(order))
    return float((numpy.abs(numpy.diff(place)) < batch).mean())


def accuracy(group: int, seed: int, epochs: int) -> float:
    """Train on digits in this order, and return the share of others that are told right."""
    from sklearn.datasets import load_digits  # takes seconds, which other commands of the benchmark do without

    digits = load_digits()
    mixed = numpy.array(permutation(len(digits.target), "split", 0), dtype=numpy.int64)
    tested, trained = mixed[:_DIGITS_TESTED], mixed[_DIGITS_TESTED:]
    trained = trained[numpy.argsort(digits.target[trained], kind="stable")]
    images, labels = digits.data / 16.0, numpy.eye(10)[digits.target]
    network = _Network(seed)
    for epoch in range(epochs):
        order = trained[order_of(group, len(trained), seed, epoch, _DIGITS_RESERVOIR)]
        for first in range(0, len(order), _DIGITS_BATCH):
            batch = order[first : first + _DIGITS_BATCH]
            network.learn(images[batch], labels[batch])
    return float((network.guess(images[tested]) == digits.target[tested]).mean())


class _Network:
    """One hidden layer, trained by momentum."""

    def __init__(self, seed: int) -> None:
        chance = numpy.random.default_rng(seed)
        self._weights = [chance.normal(0, 0.2, shape) for shape in ((64, _HIDDEN), (_HIDDEN,), (_HIDDEN, 10), (10,))]
        self._speeds = [numpy.zeros_like(each) for each in self._weights]

    def learn(self, images: NDArray[Any], labels: NDArray[Any]) -> None:
        """Take one step on a batch."""
        hidden, scores = self._forward(images)
        chances = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        error = (chances / chances.sum(axis=1, keepdims=True) - labels) / len(images)
        back = (error @ self._weights[2].T) * (hidden > 0)
        slopes = [images.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
        self._speeds = [_MOMENTUM * speed - _RATE * slope for speed, slope in zip(self._speeds, slopes, strict=True)]
        self._weights = [weight + speed for weight, speed in zip(self._weights, self._speeds, strict=True)]

    def guess(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return the likeliest class of each."""
        found: NDArray[Any] = self._forward(images)[1].argmax(axis=1)
        return found

    def _forward(self, images: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        hidden = numpy.maximum(images @ self._weights[0] + self._weights[1], 0)
        return hidden, hidden @ self._weights[2] + self._weights[3]


def _measured(group: int, samples: int, seeds: int, epochs: int) -> ShuffleFigures:
    began = time.process_time()
    orders = [order_of(group, samples, seed) for seed in range(seeds)]
    seconds = time.process_time() - began
    classes = [order * CLASSES // samples for order in orders]
    short = [dispersion(each, BATCH) for each in classes]
    long = [dispersion(each, BATCH * _LONG) for each in classes]
    right = [accuracy(group, seed, epochs) for seed in range(seeds)]
    # All samples by themselves are read in chunks as well: of the middle one of the sizes.
    chunk = group if group > 1 else GROUPS[1]
    return ShuffleFigures(
        order={0: "none", 1: "all"}.get(group, f"groups of {group}"),
        microseconds=1e6 * seconds / samples / seeds,
        merged=merged(orders[0], chunk, 2 * RESERVOIR),
        dispersion=float(numpy.mean(short)),
        spread=float(numpy.std(short, ddof=1)) if seeds > 1 else 0.0,
        dispersion_long=float(numpy.mean(long)),
        together=float(numpy.mean([together(order, BATCH) for order in orders])),
        accuracy=float(numpy.mean(right)),
        accuracy_spread=float(numpy.std(right, ddof=1)) if seeds > 1 else 0.0,
    )

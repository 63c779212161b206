"""The order of a training job: the sample at each position of an epoch, and the position of each sample."""

from array import array
from collections.abc import Iterator
from dataclasses import replace

from stoker_orders.loader_schedule import Loading
from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.interleave import NONE
from stoker_orders.predictors.samplers import sampler_of
from stoker_orders.sample_map import SampleMap, SamplePiece
from stoker_orders.sampling_plan import SamplingPlan

# Maximum number of samples of a Dataset with a computed order: 8 bytes each for an epoch, and 0.2 to 1.2 us.
MOST_SAMPLES = 10_000_000


class EpochOrder:
    """One epoch: ``samples`` by position and ``places`` by sample; 4 bytes each.

    The place is ``NONE`` for a sample outside the epoch, or of ranks on other nodes with separate orders. ``count`` is
    the number of all samples; None: as many as the epoch has.
    """

    def __init__(
        self, number: int, samples: "array[int]", places: "array[int] | None" = None, count: int | None = None
    ) -> None:
        self.number = number
        self.samples = samples
        self.places = places or _inverted(samples, len(samples) if count is None else count)

    def numbered(self, number: int) -> "EpochOrder":
        """Return the same order with another epoch number."""
        return EpochOrder(number, self.samples, self.places)


class JobOrder:
    """The order of one job on one node. ``ranks`` read on this node. Raises ValueError for too many samples."""

    def __init__(self, plan: SamplingPlan, samples: SampleMap, ranks: tuple[int, ...]) -> None:
        if len(samples) > MOST_SAMPLES:
            raise ValueError(f"{len(samples)} samples are too many: the order of {MOST_SAMPLES} is computed at most")
        self.plan = plan
        self.map = samples
        self.loading = Loading(
            len(samples),
            plan.ranks,
            ranks,
            plan.turn,
            plan.batch,
            plan.loaders,
            drop_last=plan.drop_last,
            own_orders=sampler_of(plan.sampler).own_orders,
        )

    @property
    def is_same_each_epoch(self) -> bool:
        """True if all epochs have the same order."""
        sampler = sampler_of(self.plan.sampler)
        if sampler.by_epoch:
            return self.plan.reseeds is False and not self.plan.start.base
        return sampler.seedless or (not sampler.stateful and self.plan.seed_of(0) == self.plan.seed_of(1))

    def epoch(self, number: int) -> EpochOrder:
        """Compute an epoch's order. Blocks: a second for a million samples. Raises ValueError for a plug-in's order."""
        count = len(self.map)
        return EpochOrder(number, self.plan.order_of(count, number, self.loading.here), count=count)

    def question(self, number: int) -> OrderQuestion:
        """Return the question to a plug-in about an epoch's order."""
        return self.plan.question(len(self.map), number)

    def told(self, number: int, samples: "array[int]") -> EpochOrder:
        """Return an epoch's order from a plug-in's checked answer.

        Blocks: a tenth of a second for a million samples.
        """
        return EpochOrder(number, self.plan.begun(samples, number), count=len(self.map))

    def pieces(self, epoch: EpochOrder, step: int, loading: Loading | None = None) -> Iterator[SamplePiece]:
        """Yield the pieces that this node's ranks read from a step on.

        A run of samples of one whole file yields it once.
        """
        return self._pieces_at(epoch, (loading or self.loading).indices(step))

    def pieces_in_batches(self, epoch: EpochOrder, step: int, loading: Loading) -> Iterator[SamplePiece]:
        """Yield the same pieces batch by batch: samples that loaders read in parallel follow each other."""
        return self._pieces_at(epoch, loading.in_batches(step))

    def _pieces_at(self, epoch: EpochOrder, indices: Iterator[int]) -> Iterator[SamplePiece]:
        last = None
        count = len(epoch.samples)
        for index in indices:
            piece = self.map.piece(epoch.samples[index % count])
            if piece != last:
                yield piece
            last = piece


def fitted(loading: Loading, epoch: EpochOrder) -> Loading:
    """Return the loading for an epoch with another number of samples."""
    count = len(epoch.samples)
    return loading if loading.samples == count else replace(loading, samples=count)


def _inverted(samples: "array[int]", count: int) -> "array[int]":
    places = array("I", [NONE]) * count
    for place, sample in enumerate(samples):
        if sample != NONE and places[sample] == NONE:  # the first position of a repeated sample
            places[sample] = place
    return places

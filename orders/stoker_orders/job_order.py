"""The order of a training job: which sample comes at which place of an epoch, and where each sample has its place."""

from array import array
from collections.abc import Iterator
from dataclasses import replace

from stoker_orders.loading import Loading
from stoker_orders.predictors.dealing import NONE
from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.samplers import sampler_of
from stoker_orders.sample_map import SampleMap, SamplePiece
from stoker_orders.sampling_plan import SamplingPlan

# Samples of one Dataset whose order is computed: 8 bytes each for an epoch, and 0.2 to 1.2 us.
MOST_SAMPLES = 10_000_000


class EpochOrder:
    """One epoch: ``samples`` by place, and ``places`` by sample; 4 bytes each.

    Of a sample that the epoch does not have, or that ranks of other nodes read by an order of their own, the place is
    ``NONE``. ``count``: all samples that there are; None: as many as the epoch has.
    """

    def __init__(
        self, number: int, samples: "array[int]", places: "array[int] | None" = None, count: int | None = None
    ) -> None:
        self.number = number
        self.samples = samples
        self.places = places or _inverted(samples, len(samples) if count is None else count)

    def numbered(self, number: int) -> "EpochOrder":
        """Return the same order as that of another epoch."""
        return EpochOrder(number, self.samples, self.places)


class JobOrder:
    """The order of one job on one node. ``ranks``: those that read there. Raises ValueError for too many samples."""

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
        """Whether all epochs have one order."""
        sampler = sampler_of(self.plan.sampler)
        if sampler.by_epoch:
            return self.plan.reseeds is False and not self.plan.start.base
        return sampler.seedless or (not sampler.stateful and self.plan.seed_of(0) == self.plan.seed_of(1))

    def epoch(self, number: int) -> EpochOrder:
        """Compute an epoch's order. Blocks: a second for a million samples. Raises ValueError for that of a plug-in."""
        count = len(self.map)
        return EpochOrder(number, self.plan.order_of(count, number, self.loading.here), count=count)

    def question(self, number: int) -> OrderQuestion:
        """Return what a plug-in is asked for an epoch's order."""
        return self.plan.question(len(self.map), number)

    def told(self, number: int, samples: "array[int]") -> EpochOrder:
        """Return an epoch's order that a plug-in told, checked before. Blocks: a tenth of a second for a million."""
        return EpochOrder(number, self.plan.begun(samples, number), count=len(self.map))

    def pieces(self, epoch: EpochOrder, step: int, loading: Loading | None = None) -> Iterator[SamplePiece]:
        """Yield what this node's ranks read from a step of an epoch on, each file once where it is read as a whole."""
        return self._pieces_at(epoch, (loading or self.loading).indices(step))

    def pieces_in_batches(self, epoch: EpochOrder, step: int, loading: Loading) -> Iterator[SamplePiece]:
        """Yield the same as batches are taken: what loaders read at once comes one after the other."""
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
    """Return it for an epoch, which may have more or fewer samples than another one."""
    count = len(epoch.samples)
    return loading if loading.samples == count else replace(loading, samples=count)


def _inverted(samples: "array[int]", count: int) -> "array[int]":
    places = array("I", [NONE]) * count
    for place, sample in enumerate(samples):
        if sample != NONE and places[sample] == NONE:  # of what is read twice, the first time
            places[sample] = place
    return places

"""A training job's sampling as its owner wrote it: plain, validated values."""

from array import array
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.interleave import Dealing
from stoker_orders.predictors.samplers import PluginSampler, SamplerName, sampler_of


class SampleLayout(StrEnum):
    """The layout of samples in files."""

    IMAGE_FOLDER = "ImageFolder"  # one sample per file; class folders by name, and files by name within each
    FILE_LIST = "FileList"  # one sample per file, in the order of a text file in the Dataset
    SHARDS = "Shards"  # files by name, with equal numbers of samples or the counts of an index
    RECORDS = "Records"  # one file of samples of one size, or at the offsets of an index


@dataclass(frozen=True)
class SampleFiles:
    """The location of samples. ``path`` is the folder, list, pattern or file in the Dataset; empty: all of it.

    ``per_shard`` is the number of samples of each shard; 1: the sampler orders whole shards. Sizes in bytes. ``index``
    is the path of the file with shard counts or record offsets; empty: none.
    """

    layout: SampleLayout = SampleLayout.IMAGE_FOLDER
    path: str = ""
    per_shard: int = 1
    record_bytes: int = 0
    header_bytes: int = 0
    index: str = ""

    @property
    def described_by(self) -> str:
        """The path of the file that lists the samples; empty: none."""
        return self.path if self.layout is SampleLayout.FILE_LIST else self.index


@dataclass(frozen=True)
class EpochStart:
    """The position where a job starts to read, in an epoch that may be partly read.

    ``base`` counts samples that all ranks read under another number of ranks. ``position`` counts samples of each rank
    after those.
    """

    epoch: int = 0
    base: int = 0
    position: int = 0


AT_FIRST = EpochStart()


@dataclass(frozen=True)
class SamplingPlan:
    """All values that determine the order.

    ``batch`` is the number of samples of one rank. ``loaders`` are the processes of one rank, with one batch each.
    ``ranks`` counts all pods' ranks; ``rank`` is the first one of this pod, which has ``ranks_here``. ``drop_last``
    drops an incomplete round; otherwise the first samples fill it. ``reseeds`` adds the epoch to the seed; None: the
    sampler's default. ``dataset`` is the Dataset's name; empty: the only one. ``group``, ``reservoir`` and ``ratio``
    are as in ``Dealing``. ``parameters`` are a plug-in's arguments. ``start`` is the known start position.
    """

    sampler: SamplerName | PluginSampler
    seed: int = 0
    epochs: int = 1
    batch: int = 1
    loaders: int = 0
    ranks: int = 1
    rank: int = 0
    ranks_here: int = 1
    drop_last: bool = False
    reseeds: bool | None = None
    files: SampleFiles = SampleFiles()
    dataset: str = ""
    group: int = 1
    reservoir: int = 256
    ratio: Fraction = Fraction(1)
    parameters: tuple[tuple[str, str], ...] = ()
    start: EpochStart = AT_FIRST

    @property
    def plugin(self) -> str | None:
        """The name of the plug-in that computes orders; None: a built-in sampler does."""
        return self.sampler.name if isinstance(self.sampler, PluginSampler) else None

    @property
    def turn(self) -> int:
        """Samples that a rank takes before the next rank's turn."""
        return self.batch if sampler_of(self.sampler).by_batches else 1

    def seed_of(self, epoch: int) -> int:
        """Return the seed of an epoch's order."""
        sampler = sampler_of(self.sampler)
        reseeds = sampler.reseeds if self.reseeds is None else self.reseeds
        return self.seed + epoch if reseeds and not sampler.by_epoch else self.seed

    def order_of(self, samples: int, epoch: int, here: tuple[int, ...]) -> "array[int]":
        """Compute an epoch's order for the given ranks. Blocks: a second for a million samples.

        Raises ValueError for a plug-in's order.
        """
        dealing = Dealing(self.ranks, here, self.drop_last, self.group, self.reservoir, self.ratio)
        order = sampler_of(self.sampler).order(samples, self.seed_of(epoch), self._counted(epoch), dealing)
        return self.begun(order, epoch)

    def question(self, samples: int, epoch: int) -> OrderQuestion:
        """Return the question to a plug-in about an epoch's order."""
        counted = self._counted(epoch)
        return OrderQuestion(samples, self.seed, counted, self.ranks, self.batch, self.drop_last, self.parameters)

    def begun(self, order: "array[int]", epoch: int) -> "array[int]":
        """Return an epoch's order from the job's start position."""
        return self._left(order) if 0 < self.start.base < len(order) and epoch == self.start.epoch else order

    def _counted(self, epoch: int) -> int:
        return 0 if sampler_of(self.sampler).by_epoch and self.reseeds is False else epoch

    def _left(self, order: "array[int]") -> "array[int]":
        """Return the rest of an order after the base, filled with the first samples of the whole order."""
        left = order[self.start.base :]
        if left and not self.drop_last and len(left) % self.ranks:
            missing = self.ranks - len(left) % self.ranks
            left.extend(order[place % len(order)] for place in range(missing))
        return left

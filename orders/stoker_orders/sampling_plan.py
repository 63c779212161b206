"""How a training job samples, as its owner says: plain values that were checked at the door."""

from array import array
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from stoker_orders.predictors.dealing import Dealing
from stoker_orders.predictors.interface import OrderQuestion
from stoker_orders.predictors.samplers import PluginSampler, SamplerName, sampler_of


class SampleLayout(StrEnum):
    """How samples lie in files."""

    IMAGE_FOLDER = "ImageFolder"  # a file a sample; folders of classes by name, and files by name within each
    FILE_LIST = "FileList"  # a file a sample, as a text file of the Dataset lists them
    SHARDS = "Shards"  # files by name, each with as many samples, or as many as an index says
    RECORDS = "Records"  # one file of samples of one size, or that begin where an index says


@dataclass(frozen=True)
class SampleFiles:
    """Where samples lie. ``path``: of the folder, list, pattern or file, within the Dataset; empty: the whole of it.

    ``per_shard``: samples of each shard; 1: the sampler orders the shards themselves. Sizes in bytes. ``index``: the
    path of the file that says how many samples shards have, or where records begin; empty: none does.
    """

    layout: SampleLayout = SampleLayout.IMAGE_FOLDER
    path: str = ""
    per_shard: int = 1
    record_bytes: int = 0
    header_bytes: int = 0
    index: str = ""

    @property
    def described_by(self) -> str:
        """The path of the file that has to be read to find the samples; empty: none has."""
        return self.path if self.layout is SampleLayout.FILE_LIST else self.index


@dataclass(frozen=True)
class EpochStart:
    """Where a job begins to read: in which epoch, and what was read of it before.

    ``base``: samples that all ranks together had read of it while there was another number of them; ``position``: what
    each rank has read after those.
    """

    epoch: int = 0
    base: int = 0
    position: int = 0


AT_FIRST = EpochStart()


@dataclass(frozen=True)
class SamplingPlan:
    """Everything from which the order follows.

    ``batch``: samples of one rank. ``loaders``: processes that read for one rank, each a batch at a time. ``ranks``:
    of all pods together; ``rank``: the first one of this pod, which has ``ranks_here``. ``drop_last``: what does not go
    round among the ranks is left out, else they are given the first samples once more. ``reseeds``: the epoch is added
    to the seed; None: as the sampler does. ``dataset``: the name of the Dataset it is of; empty: of the only one.
    ``group``, ``reservoir`` and ``ratio``: as ``Dealing`` has them. ``parameters``: what a plug-in is told, by name.
    ``start``: where it is known to begin.
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
        """The name of the plug-in that has to be asked for orders; None: they are computed."""
        return self.sampler.name if isinstance(self.sampler, PluginSampler) else None

    @property
    def turn(self) -> int:
        """Samples that a rank takes before the next one has its turn."""
        return self.batch if sampler_of(self.sampler).by_batches else 1

    def seed_of(self, epoch: int) -> int:
        """Return the seed of an epoch's order."""
        sampler = sampler_of(self.sampler)
        reseeds = sampler.reseeds if self.reseeds is None else self.reseeds
        return self.seed + epoch if reseeds and not sampler.by_epoch else self.seed

    def order_of(self, samples: int, epoch: int, here: tuple[int, ...]) -> "array[int]":
        """Compute an epoch's order, as far as these ranks need it. Blocks: a second for a million samples.

        Raises ValueError for that of a plug-in.
        """
        dealing = Dealing(self.ranks, here, self.drop_last, self.group, self.reservoir, self.ratio)
        order = sampler_of(self.sampler).order(samples, self.seed_of(epoch), self._counted(epoch), dealing)
        return self.begun(order, epoch)

    def question(self, samples: int, epoch: int) -> OrderQuestion:
        """Return what a plug-in is asked for an epoch's order."""
        counted = self._counted(epoch)
        return OrderQuestion(samples, self.seed, counted, self.ranks, self.batch, self.drop_last, self.parameters)

    def begun(self, order: "array[int]", epoch: int) -> "array[int]":
        """Return an epoch's order from where the job begins in it."""
        return self._left(order) if 0 < self.start.base < len(order) and epoch == self.start.epoch else order

    def _counted(self, epoch: int) -> int:
        return 0 if sampler_of(self.sampler).by_epoch and self.reseeds is False else epoch

    def _left(self, order: "array[int]") -> "array[int]":
        """Return what is left of an order after the base, made up by the first samples of the whole of it."""
        left = order[self.start.base :]
        if left and not self.drop_last and len(left) % self.ranks:
            missing = self.ranks - len(left) % self.ranks
            left.extend(order[place % len(order)] for place in range(missing))
        return left

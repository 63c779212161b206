"""How a training job samples, as its owner says: plain values that were checked at the door."""

from dataclasses import dataclass
from enum import StrEnum

from stoker_orders.predictors.samplers import SAMPLERS, SamplerName


class SampleLayout(StrEnum):
    """How samples lie in files."""

    IMAGE_FOLDER = "ImageFolder"  # a file a sample; folders of classes by name, and files by name within each
    FILE_LIST = "FileList"  # a file a sample, as a text file of the Dataset lists them
    SHARDS = "Shards"  # files by name, each with as many samples
    RECORDS = "Records"  # one file of samples of one size


@dataclass(frozen=True)
class SampleFiles:
    """Where samples lie. ``path``: of the folder, list, pattern or file, within the Dataset; empty: the whole of it.

    ``per_shard``: samples of each shard; 1: the sampler orders the shards themselves. Sizes in bytes.
    """

    layout: SampleLayout = SampleLayout.IMAGE_FOLDER
    path: str = ""
    per_shard: int = 1
    record_bytes: int = 0
    header_bytes: int = 0


@dataclass(frozen=True)
class SamplingPlan:
    """Everything from which the order follows.

    ``batch``: samples of one rank. ``loaders``: processes that read for one rank, each a batch at a time. ``ranks``:
    of all pods together; ``rank``: the first one of this pod, which has ``ranks_here``. ``drop_last``: what does not go
    round among the ranks is left out, else they are given the first samples once more. ``reseeds``: the epoch is added
    to the seed; None: as the sampler does. ``dataset``: the name of the Dataset it is of; empty: of the only one.
    """

    sampler: SamplerName
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

    @property
    def turn(self) -> int:
        """Samples that a rank takes before the next one has its turn."""
        return self.batch if SAMPLERS[self.sampler].by_batches else 1

    def seed_of(self, epoch: int) -> int:
        """Return the seed of an epoch's order."""
        sampler = SAMPLERS[self.sampler]
        reseeds = sampler.reseeds if self.reseeds is None else self.reseeds
        return self.seed + epoch if reseeds else self.seed

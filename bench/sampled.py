"""Epochs in the order of PyTorch's DistributedSampler, assigned to loaders as its DataLoader does. Pure."""

from collections.abc import Sequence

from bench.objects import paths
from bench.readers import Job
from bench.scale import Corpus
from stoker_api.jobs.sampling import SampleFilesSpec, Sampling
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_orders.sampling_plan import SampleLayout

BATCH = 64


def epoch_order(corpus: Corpus, seed: int, epoch: int = 0) -> list[str]:
    """Return the files of a corpus in the order of one rank's epoch."""
    files = sorted(paths(corpus))
    order = SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(len(files), seed + epoch, epoch)
    return [files[number] for number in order]


def dealt(order: Sequence[str], loaders: int) -> list[Job]:
    """Assign the batches of an epoch to loaders."""
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    return [Job([path for batch in batches[one::loaders] for path in batch]) for one in range(loaders)]


def sampling(seed: int, loaders: int, *, batch: int = BATCH, epochs: int = 3, ranks: int = 1) -> str:
    """Return the sampling attribute of a pod that reads all files by name. The pod has all ``ranks``."""
    files = SampleFilesSpec(layout=SampleLayout.SHARDS)
    said = Sampling(
        seed=seed, batch=batch, loaders=loaders, epochs=epochs, ranks=ranks, ranks_per_pod=ranks, files=files
    )
    return said.text()

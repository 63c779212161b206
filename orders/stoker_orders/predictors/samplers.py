"""The samplers whose order is known, by name: what each makes of a number of samples, a seed and an epoch."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from stoker_orders.predictors import pcg64
from stoker_orders.predictors.mersenne import TorchGenerator


class SamplerName(StrEnum):
    """Whose order it is."""

    TORCH_DISTRIBUTED = "torch-distributed"
    TORCH_SEQUENTIAL = "torch-sequential"
    TORCH_RANDOM = "torch-random"
    ACCELERATE_SEEDABLE = "accelerate-seedable"
    HUGGINGFACE_SHUFFLE = "huggingface-shuffle"
    NUMPY_PERMUTATION = "numpy-permutation"
    FILE_LIST = "file-list"


@dataclass(frozen=True)
class Sampler:
    """One sampler.

    ``order``: gives the numbers of all samples in the order of an epoch, for (samples, seed, epoch); where ``reseeds``,
    the epoch is added to the seed, unless the job says that it is not. ``by_batches``: ranks take turns by whole
    batches, not by samples. ``stateful``: the epoch's order follows from all epochs before. ``seedless``: every seed
    and epoch has the same order.
    """

    order: Callable[[int, int, int], "array[int]"]
    reseeds: bool = False
    by_batches: bool = False
    stateful: bool = False
    seedless: bool = False


def _torch_seeded(count: int, seed: int, epoch: int) -> "array[int]":
    """Return ``randperm`` of a generator that is seeded for it: DistributedSampler, and Accelerate's sampler."""
    return TorchGenerator(seed).permutation(count)


def _torch_generator(count: int, seed: int, epoch: int) -> "array[int]":
    """Return what ``DataLoader(shuffle=True, generator=...)`` makes of a generator that was seeded once, at first.

    Each epoch draws 64 bits for the seed of the workers, a permutation, and another one of which nothing is used.
    """
    generator = TorchGenerator(seed)
    generator.skip(epoch * (2 + 2 * max(0, count - 1)) + 2)
    return generator.permutation(count)


def _numpy(count: int, seed: int, epoch: int) -> "array[int]":
    return pcg64.permutation(count, seed)


def _in_order(count: int, seed: int, epoch: int) -> "array[int]":
    return array("I", range(count))


SAMPLERS = {
    SamplerName.TORCH_DISTRIBUTED: Sampler(_torch_seeded, reseeds=True),
    SamplerName.TORCH_SEQUENTIAL: Sampler(_in_order, seedless=True),
    SamplerName.TORCH_RANDOM: Sampler(_torch_generator, stateful=True),
    SamplerName.ACCELERATE_SEEDABLE: Sampler(_torch_seeded, reseeds=True, by_batches=True),
    SamplerName.HUGGINGFACE_SHUFFLE: Sampler(_numpy),
    SamplerName.NUMPY_PERMUTATION: Sampler(_numpy, reseeds=True),
    SamplerName.FILE_LIST: Sampler(_in_order, seedless=True),
}

"""The samplers whose order is known, by name: what each makes of a number of samples, a seed and an epoch."""

import re
from array import array
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from stoker_orders.predictors import client_orders, pcg64
from stoker_orders.predictors.dealing import ALONE, Dealing
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
    STOKER_SHUFFLE = "stoker-shuffle"
    STOKER_GROUP_SHUFFLE = "stoker-group-shuffle"
    STOKER_QUALITY_RATIO = "stoker-quality-ratio"


# What is written in front of the name of a plug-in; and how such a name looks.
OF_A_PLUGIN = "plugin:"
PLUGIN_NAME = "[a-z0-9]([a-z0-9._-]{0,38}[a-z0-9])?"


@dataclass(frozen=True)
class PluginSampler:
    """A sampler whose order an order plug-in of this name knows."""

    name: str

    def __str__(self) -> str:
        return f"{OF_A_PLUGIN}{self.name}"


def sampler_named(text: str) -> SamplerName | PluginSampler:
    """Return the sampler that is written so. Raises ValueError with a sentence."""
    name = text.removeprefix(OF_A_PLUGIN)
    if name != text:
        if re.fullmatch(PLUGIN_NAME, name) is None:
            raise ValueError(f"{text!r:.60} names no plug-in: lower-case letters, digits, '.', '-', '_', 40 at most")
        return PluginSampler(name)
    try:
        return SamplerName(text)
    except ValueError:
        known = ", ".join(SamplerName)
        raise ValueError(f"{text!r:.60} is no sampler: one of {known}, or plugin:NAME") from None


class OrderOfEpoch(Protocol):
    """Gives the numbers of the samples in the order of an epoch, 4 bytes each."""

    def __call__(self, count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
        """Compute it. Blocks: a second for a million samples."""
        ...


@dataclass(frozen=True)
class Sampler:
    """One sampler.

    Where it ``reseeds``, the epoch is added to the seed, unless the job says that it is not; ``by_epoch``: the seed
    stays, and the order follows from the epoch as well, which is the first one where the job says so. ``by_batches``:
    ranks take turns by whole batches, not by samples. ``stateful``: the epoch's order follows from all epochs before.
    ``seedless``: every seed and epoch has the same order. ``own_orders``: ranks do not share one order.
    """

    order: OrderOfEpoch
    reseeds: bool = False
    by_epoch: bool = False
    by_batches: bool = False
    stateful: bool = False
    seedless: bool = False
    own_orders: bool = False


def _torch_seeded(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    """Return ``randperm`` of a generator that is seeded for it: DistributedSampler, and Accelerate's sampler."""
    return TorchGenerator(seed).permutation(count)


def _torch_generator(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    """Return what ``DataLoader(shuffle=True, generator=...)`` makes of a generator that was seeded once, at first.

    Each epoch draws 64 bits for the seed of the workers, a permutation, and another one of which nothing is used.
    """
    generator = TorchGenerator(seed)
    generator.skip(epoch * (2 + 2 * max(0, count - 1)) + 2)
    return generator.permutation(count)


def _numpy(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    return pcg64.permutation(count, seed)


def _in_order(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    return array("I", range(count))


SAMPLERS = {
    SamplerName.TORCH_DISTRIBUTED: Sampler(_torch_seeded, reseeds=True),
    SamplerName.TORCH_SEQUENTIAL: Sampler(_in_order, seedless=True),
    SamplerName.TORCH_RANDOM: Sampler(_torch_generator, stateful=True),
    SamplerName.ACCELERATE_SEEDABLE: Sampler(_torch_seeded, reseeds=True, by_batches=True),
    SamplerName.HUGGINGFACE_SHUFFLE: Sampler(_numpy),
    SamplerName.NUMPY_PERMUTATION: Sampler(_numpy, reseeds=True),
    SamplerName.FILE_LIST: Sampler(_in_order, seedless=True),
    SamplerName.STOKER_SHUFFLE: Sampler(client_orders.whole, by_epoch=True),
    SamplerName.STOKER_GROUP_SHUFFLE: Sampler(client_orders.groups, by_epoch=True, own_orders=True),
    SamplerName.STOKER_QUALITY_RATIO: Sampler(client_orders.ratio_share, by_epoch=True),
}


def _of_a_plugin(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    raise ValueError("the order of a plug-in is not computed here: it is asked for, in a process of its own")


# What is known of all samplers of plug-ins: they are told seed and epoch, and lay out what each rank reads in turns.
_PLUGINS = Sampler(_of_a_plugin, by_epoch=True)


def sampler_of(name: SamplerName | PluginSampler) -> Sampler:
    """Return what is known of a sampler."""
    return _PLUGINS if isinstance(name, PluginSampler) else SAMPLERS[name]

"""The samplers with predictable orders, by name: each computes an order from a sample count, a seed and an epoch."""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Protocol

from stoker_orders.predictors import client_orders, pcg64
from stoker_orders.predictors.interleave import ALONE, Dealing

_WORDS, _MASK = 624, 0xFFFFFFFF
_BLOCK = 1 << 16  # words taken at a time, 4 bytes each
# Above this, PyTorch uses 64-bit words: ``std::numeric_limits<uint32_t>::max() / 20``.
MOST_PERMUTED = _MASK // 20 - 1


class TorchGenerator:
    """Equals ``torch.Generator().manual_seed(seed)`` on a CPU, 32 bits at a time.

    A seed may be negative.
    """

    def __init__(self, seed: int) -> None:
        words = [seed & _MASK]
        for i in range(1, _WORDS):
            last = words[-1]
            words.append((1812433253 * (last ^ (last >> 30)) + i) & _MASK)
        self._random = Random()
        self._random.setstate((3, (*words, _WORDS), None))

    def words(self, count: int) -> Iterator[int]:
        """Yield ``count`` numbers of 32 bits."""
        while count > 0:
            some = min(count, _BLOCK)
            yield from self._block(some)
            count -= some

    def skip(self, count: int) -> None:
        """Skip ``count`` numbers."""
        while count > 0:
            some = min(count, _BLOCK)
            self._random.getrandbits(32 * some)
            count -= some

    def _block(self, count: int) -> "array[int]":
        # getrandbits fills words from the lowest on, each with one number of the generator.
        block = array("I", bytes(0))
        block.frombytes(self._random.getrandbits(32 * count).to_bytes(4 * count, "little"))
        return block

    def permutation(self, count: int) -> "array[int]":
        """Return ``torch.randperm(count, generator=self)``. Raises ValueError above the 32-bit method's limit."""
        if count > MOST_PERMUTED:
            raise ValueError(f"{count} samples are too many: the order of up to {MOST_PERMUTED} is known")
        order = array("I", range(count))
        for i, word in enumerate(self.words(count - 1)):
            j = i + word % (count - i)
            order[i], order[j] = order[j], order[i]
        return order


class SamplerName(StrEnum):
    """The sampler that defines the order."""

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


# The prefix of a plug-in's name, and the form of the name.
OF_A_PLUGIN = "plugin:"
PLUGIN_NAME = "[a-z0-9]([a-z0-9._-]{0,38}[a-z0-9])?"


@dataclass(frozen=True)
class PluginSampler:
    """A sampler whose order a plug-in of this name computes."""

    name: str

    def __str__(self) -> str:
        return f"{OF_A_PLUGIN}{self.name}"


def sampler_named(text: str) -> SamplerName | PluginSampler:
    """Parse a sampler's name. Raises ValueError with a sentence."""
    name = text.removeprefix(OF_A_PLUGIN)
    if name != text:
        if re.fullmatch(PLUGIN_NAME, name) is None:
            raise ValueError(f"{text!r:.60} names no plug-in: lower-case letters, digits, '.', '-', '_', 40 at most")
        return PluginSampler(name)
    try:
        return SamplerName(text)
    except ValueError:
        known = ", ".join(SamplerName)
        raise ValueError(f"{text!r:.60} is not a sampler: use one of {known}, or plugin:NAME") from None


class OrderOfEpoch(Protocol):
    """Returns the sample numbers in the order of an epoch, 4 bytes each."""

    def __call__(self, count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
        """Compute the order. Blocks: a second for a million samples."""
        ...


@dataclass(frozen=True)
class Sampler:
    """One sampler.

    ``reseeds``: the epoch is added to the seed, unless the job disables it. ``by_epoch``: the order depends on a
    constant seed and the epoch; the job can fix the epoch at 0. ``by_batches``: ranks take turns by whole batches.
    ``stateful``: an epoch's order depends on all epochs before. ``seedless``: every seed and epoch has the same order.
    ``own_orders``: each rank has a separate order.
    """

    order: OrderOfEpoch
    reseeds: bool = False
    by_epoch: bool = False
    by_batches: bool = False
    stateful: bool = False
    seedless: bool = False
    own_orders: bool = False


def _torch_seeded(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    """Return ``randperm`` of a newly seeded generator, as DistributedSampler and Accelerate's sampler do."""
    return TorchGenerator(seed).permutation(count)


def _torch_generator(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    """Return the order of ``DataLoader(shuffle=True, generator=...)`` with a generator that was seeded once.

    Each epoch draws 64 bits for the workers' seed, a permutation, and another unused permutation.
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


# Common properties of plug-in samplers: they get seed and epoch, and lay out the ranks' reads in turns.
_PLUGINS = Sampler(_of_a_plugin, by_epoch=True)


def sampler_of(name: SamplerName | PluginSampler) -> Sampler:
    """Return the properties of a sampler."""
    return _PLUGINS if isinstance(name, PluginSampler) else SAMPLERS[name]

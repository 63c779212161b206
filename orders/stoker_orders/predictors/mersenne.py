"""PyTorch's CPU generator and its ``randperm``, without PyTorch.

The standard library has the same generator (MT19937) and seeds it otherwise, so its state is set.
"""

from array import array
from collections.abc import Iterator
from random import Random

_WORDS, _MASK = 624, 0xFFFFFFFF
_BLOCK = 1 << 16  # words taken at a time, 4 bytes each
# PyTorch takes 64-bit words from here on: ``std::numeric_limits<uint32_t>::max() / 20``.
MOST_PERMUTED = _MASK // 20 - 1


class TorchGenerator:
    """The generator that ``torch.Generator().manual_seed(seed)`` is on a CPU, 32 bits at a time.

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
        """Take so many numbers of 32 bits."""
        while count > 0:
            some = min(count, _BLOCK)
            yield from self._block(some)
            count -= some

    def skip(self, count: int) -> None:
        """Pass over so many numbers."""
        while count > 0:
            some = min(count, _BLOCK)
            self._random.getrandbits(32 * some)
            count -= some

    def _block(self, count: int) -> "array[int]":
        # getrandbits fills its words from the lowest on, each with one number of the generator.
        block = array("I", bytes(0))
        block.frombytes(self._random.getrandbits(32 * count).to_bytes(4 * count, "little"))
        return block

    def permutation(self, count: int) -> "array[int]":
        """Return ``torch.randperm(count, generator=self)``. Raises ValueError for more than PyTorch permutes so."""
        if count > MOST_PERMUTED:
            raise ValueError(f"{count} samples are too many: the order of up to {MOST_PERMUTED} is known")
        order = array("I", range(count))
        for i, word in enumerate(self.words(count - 1)):
            j = i + word % (count - i)
            order[i], order[j] = order[j], order[i]
        return order

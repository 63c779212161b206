"""The order of a job that shuffles by ``numpy.random.RandomState(seed + epoch).permutation(n)``, without NumPy."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

_WORDS, _MASK = 624, 0xFFFFFFFF


class NumpyLegacyOrder:
    """An order plug-in. The parameter ``deal`` selects each rank's share of the permutation.

    ``turns`` (the default): rank r gets every ranks-th, from the r-th on. ``blocks``: each rank gets a contiguous
    block, and the remainder is left out.
    """

    name = "numpy-legacy"

    def order(self, asked: Mapping[str, Any]) -> Iterable[int]:
        """Return an epoch's samples, in turns of the ranks. Raises ValueError for a bad ``deal`` or seed."""
        deal = asked["parameters"].get("deal", "turns")
        if deal not in ("turns", "blocks"):
            raise ValueError(f"the parameter deal is {deal!r:.40}, and must be turns or blocks")
        order = permutation(asked["samples"], asked["seed"] + asked["epoch"])
        ranks, each = asked["ranks"], asked["samples"] // asked["ranks"]
        if deal == "blocks":
            return (order[rank * each + place] for place in range(each) for rank in range(ranks))
        return order[: each * ranks] if asked["drop_last"] else order


def permutation(count: int, seed: int) -> "array[int]":
    """Return the result of ``RandomState(seed).permutation(count)``. Raises ValueError for an unsupported seed."""
    if not 0 <= seed <= _MASK:
        raise ValueError(f"RandomState takes seeds from 0 to {_MASK}, and {seed} is none")
    order, draw = array("I", range(count)), _generator(seed).getrandbits
    for last in range(count - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        while (other := draw(32) & mask) > last:
            pass
        order[last], order[other] = order[other], order[last]
    return order


def _generator(seed: int) -> Random:
    """Return the standard library's Mersenne twister, seeded as NumPy's."""
    generator = Random()
    generator.setstate((3, (*_seeded(seed), _WORDS), None))
    return generator


def _seeded(seed: int) -> Iterator[int]:
    word = seed
    for number in range(1, _WORDS + 1):
        yield word
        word = (1812433253 * (word ^ (word >> 30)) + number) & _MASK

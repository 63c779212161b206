"""The order of a job that shuffles by ``numpy.random.RandomState(seed + epoch).permutation(n)``, without NumPy."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

_WORDS, _MASK = 624, 0xFFFFFFFF


class NumpyLegacyOrder:
    """An order plug-in. The parameter ``deal`` says what each rank has of the permutation.

    ``turns`` (as without it): rank r has every ranks-th, from the r-th on; ``blocks``: each has a stretch, and what
    does not go round is left out.
    """

    name = "numpy-legacy"

    def order(self, asked: Mapping[str, Any]) -> Iterable[int]:
        """Return an epoch's samples, in turns of the ranks. Raises ValueError for another ``deal``, or a wrong seed."""
        deal = asked["parameters"].get("deal", "turns")
        if deal not in ("turns", "blocks"):
            raise ValueError(f"the parameter deal is {deal!r:.40}, and must be turns or blocks")
        order = permutation(asked["samples"], asked["seed"] + asked["epoch"])
        ranks, each = asked["ranks"], asked["samples"] // asked["ranks"]
        if deal == "blocks":
            return (order[rank * each + place] for place in range(each) for rank in range(ranks))
        return order[: each * ranks] if asked["drop_last"] else order


def permutation(count: int, seed: int) -> "array[int]":
    """Return what ``RandomState(seed).permutation(count)`` does. Raises ValueError for a seed that it does not take."""
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

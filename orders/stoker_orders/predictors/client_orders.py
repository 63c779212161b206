"""The orders of stoker-client's samplers, from their specification in docs/guides/client.md."""

import hashlib
import sys
from array import array
from collections.abc import Iterator
from itertools import accumulate

from stoker_orders.predictors.interleave import ALONE, NONE, Dealing

_VERSION = "stoker/1"
_BLOCK = 8192  # numbers of one text, 64 bits each


def words(count: int, *key: str | int) -> Iterator[int]:
    """Yield ``count`` numbers of 64 bits for a key."""
    text = " ".join(map(str, (_VERSION, *key)))
    for block, first in enumerate(range(0, count, _BLOCK)):
        digest = hashlib.shake_128(f"{text} {block}".encode("ascii")).digest(8 * min(_BLOCK, count - first))
        numbers = array("Q", digest)
        if sys.byteorder == "big":
            numbers.byteswap()
        yield from numbers


def permutation(count: int, *key: str | int) -> "array[int]":
    """Return 0 to count - 1 in the order of a key."""
    order = array("I", range(count))
    for i, word in enumerate(words(count - 1, *key)):
        j = i + word % (count - i)
        order[i], order[j] = order[j], order[i]
    return order


def whole(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    """Return the order of GlobalShuffleSampler, which ranks share in turns."""
    return permutation(count, "global", seed, epoch)


def ratio_share(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    """Return the order of QualityRatioSampler with a share of the samples, which ranks share in turns."""
    ratio, ranks = dealing.ratio, dealing.ranks
    cycle, within = divmod(epoch, ratio.denominator * ranks)
    first, last = (
        ranks * (number * ratio.numerator * count // (ratio.denominator * ranks)) for number in (within, within + 1)
    )
    line = permutation(count, "cycle", seed, cycle)
    share = permutation(last - first, "share", seed, epoch)
    return array("I", (line[(first + place) % count] for place in share))


def groups(count: int, seed: int, epoch: int, dealing: Dealing = ALONE) -> "array[int]":
    """Return the order of GroupShuffleSampler with equal groups, laid out as if its ranks took turns by samples.

    Each rank has a separate order. Samples of ranks outside the query are ``NONE``.
    """
    ranks = dealing.ranks
    each = count // ranks if dealing.drop_last else -(-count // ranks)
    order = array("I", [NONE]) * (each * ranks)
    if each:
        line = _ShuffledLine(count, seed, epoch, dealing.group)
        for rank in dealing.asked:
            turns = words(each + dealing.reservoir, "turns", seed, epoch, rank)
            order[rank::ranks] = array(
                "I", _mixed(line.stretch(rank * each, each), line.mean, dealing.reservoir, turns)
            )
    return order


class _ShuffledLine:
    """All samples of an epoch in a line: shuffled groups with shuffled samples."""

    def __init__(self, count: int, seed: int, epoch: int, group: int) -> None:
        self._count, self._group = count, group
        self._key = (seed, epoch)
        number = -(-count // group)
        self.mean = -(-count // number)  # samples of a group, rounded up
        self._groups = permutation(number, "groups", seed, epoch)
        self._places = array("I", accumulate((self._size(one) for one in self._groups), initial=0))

    def _size(self, group: int) -> int:
        return min(self._group, self._count - group * self._group)

    def stretch(self, first: int, length: int) -> "array[int]":
        """Return a stretch of the line, which wraps around at its end."""
        first %= self._count
        found = self._between(first, min(self._count, first + length))
        if first + length > self._count:
            found.extend(self._between(0, first + length - self._count))
        return found

    def _between(self, first: int, last: int) -> "array[int]":
        found = array("I")
        for place, group in enumerate(self._groups):
            begin, end = self._places[place], self._places[place + 1]
            if end <= first:
                continue
            if begin >= last:
                break
            start = group * self._group
            inside = permutation(end - begin, "inside", *self._key, group)
            found.extend(start + one for one in inside[max(0, first - begin) : last - begin])
        return found


def _mixed(stretch: "array[int]", mean: int, reservoir: int, numbers: Iterator[int]) -> Iterator[int]:
    """Yield a rank's samples in rounds: one from each piece of its stretch that has one left."""
    count = len(stretch)
    places = min(reservoir, count)
    firsts = [place * count // places for place in range(places)]
    sizes = [last - first for first, last in zip(firsts, [*firsts[1:], count], strict=True)]
    begins = [place * mean // places % size for place, size in enumerate(sizes)]
    turns = list(range(places))
    for done in range(max(sizes)):
        for at in range(places):
            other = at + next(numbers) % (places - at)
            turns[at], turns[other] = turns[other], turns[at]
        for place in turns:
            size = sizes[place]
            if done < size:
                yield stretch[firsts[place] + (begins[place] + done) % size]

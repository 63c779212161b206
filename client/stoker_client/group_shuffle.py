"""A shuffle of groups of neighboring samples: nearly as random as a full shuffle, with far fewer seeks."""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence, Sized
from itertools import accumulate
from typing import Any
from zlib import crc32

from stoker_client.internal.randomness import permutation, words
from stoker_client.sampler import EpochSampler


class GroupShuffleSampler(EpochSampler):
    """Shuffles groups of neighbors, and mixes the samples of ``reservoir`` open groups.

    ``groups`` is the number of samples in each group, such as a chunk of a large file, or the sequence of group sizes,
    such as those of shards. The groups are shuffled, and the samples in each group too. They form one line. Each rank
    has a stretch of it, cut into as many pieces as its reservoir has places. In each round, every place yields one
    sample, in a random order per round, so that neighbors are a round apart. Places start at different points of their
    first group and end with its rest, so that groups open evenly in time.

    At most ``reservoir`` groups of a rank are open at a time. Each opens once, except at both ends of a piece. A cache
    that knows the order and keeps open groups reads each chunk about once. An LRU cache needs room for twice as many.
    """

    _kind = "group-shuffle"
    _sampler = "stoker-group-shuffle"

    def __init__(self, data: int | Sized, groups: int | Sequence[int], *, reservoir: int = 256, **options: Any) -> None:
        super().__init__(data, **options)
        self.reservoir = operator.index(reservoir)
        # The first sample of each group, and the end.
        self._starts = array("Q", _starts(groups, self.length))
        if self.reservoir < 1:
            raise ValueError(f"reservoir is {reservoir}: at least one group is open")
        if self._starts[-1] == 0:
            raise ValueError("a group has at least one sample")
        if self._starts[-1] != self.length:
            raise ValueError(f"the groups have {self._starts[-1]} samples, and there are {self.length}")

    def group_of(self, index: int) -> int:
        """Return the number of a sample's group."""
        return bisect_right(self._starts, index) - 1

    def sampling(self) -> dict[str, Any] | None:
        """Return the order if all groups except the last have one size."""
        said, size = super().sampling(), self._starts[1]
        alike = all(start == place * size for place, start in enumerate(self._starts[:-1]))
        if said is None or not alike or self._starts[-1] - self._starts[-2] > size:
            return None
        return {**said, "groupSize": size, "reservoir": self.reservoir}

    def _identity(self) -> dict[str, Any]:
        sizes = f"{len(self._starts) - 1}/{crc32(' '.join(map(str, self._starts)).encode()):08x}"
        return {**super()._identity(), "groups": sizes, "reservoir": self.reservoir}

    def _share(self) -> Iterator[int]:
        line = _Line(self._starts, self.seed, self.epoch)
        each, rank = len(self), self.rank
        if not each:
            return
        places = min(self.reservoir, each)
        cuts = [place * each // places for place in range(places + 1)]
        group = -(-self.length // (len(self._starts) - 1))
        sources = [
            line.piece(rank * each + first, rank * each + last, place * group // places % (last - first))
            for place, (first, last) in enumerate(zip(cuts, cuts[1:]))
        ]
        turns = list(range(places))
        numbers = words(each + places, "turns", self.seed, self.epoch, rank)
        for done in range(0, each, places):
            for at in range(places):
                other = at + next(numbers) % (places - at)
                turns[at], turns[other] = turns[other], turns[at]
            for place in turns:
                if cuts[place + 1] - cuts[place] > done // places:
                    yield next(sources[place])


class _Line:
    """All samples of an epoch in a line: shuffled groups with shuffled samples."""

    def __init__(self, starts: array[int], seed: int, epoch: int) -> None:
        self._starts = starts
        self._key = (seed, epoch)
        self._groups = permutation(len(starts) - 1, "groups", seed, epoch)
        sizes = (starts[group + 1] - starts[group] for group in self._groups)
        self._places = array("Q", [0, *accumulate(sizes)])

    def piece(self, first: int, last: int, begin: int) -> Iterator[int]:
        """Yield the samples between two places of the line, starting at ``begin`` and wrapping around."""
        yield from self._between(first + begin, last)
        yield from self._between(first, first + begin)

    def _between(self, first: int, last: int) -> Iterator[int]:
        while first < last:
            at = first % self._starts[-1]  # the last rank may wrap around
            place = bisect_right(self._places, at) - 1
            group = self._groups[place]
            within, size = at - self._places[place], self._places[place + 1] - self._places[place]
            taken = min(size - within, last - first)
            inside = permutation(size, "inside", *self._key, group)
            for one in inside[within : within + taken]:
                yield self._starts[group] + one
            first += taken


def _starts(groups: int | Sequence[int], length: int) -> Iterator[int]:
    if isinstance(groups, Sized):
        sizes = [operator.index(size) for size in groups]
        return iter([0, *accumulate(sizes)] if sizes and min(sizes) > 0 else [0, 0])
    size = operator.index(groups)
    return iter((*range(0, length, size), length) if size > 0 else (0, 0))

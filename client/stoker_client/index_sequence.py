"""An epoch as a sequence for pipelines with random access, and in batches for iterators."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class IndexSequence(Sequence[int]):
    """The indices of a sampler's epoch, by position, as a source for Grain and similar libraries."""

    def __init__(self, sampler: Iterable[int]) -> None:
        self._indices = array("Q", sampler)

    def __len__(self) -> int:
        """Return the number of indices."""
        return len(self._indices)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        """Return the index at a place, or the indices of a slice."""
        found = self._indices[place]
        return found if isinstance(found, int) else found.tolist()


def batches(indices: Iterable[int], size: int, *, drop_last: bool = False) -> Iterator[list[int]]:
    """Yield lists of ``size`` indices. The last one is shorter, or is dropped."""
    if size < 1:
        raise ValueError(f"size is {size}: a batch has at least one sample")
    batch: list[int] = []
    for index in indices:
        batch.append(index)
        if len(batch) == size:
            yield batch
            batch = []
    if batch and not drop_last:
        yield batch

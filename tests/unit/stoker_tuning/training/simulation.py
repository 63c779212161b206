"""Accesses like those of training code: orders, loaders that take turns, times."""

import random
from collections.abc import Iterable, Iterator, Sequence

from stoker_tuning.training.accesses import SeenAccess
from stoker_tuning.training.layout import DatasetLayout, FileFact, make_layout
from stoker_tuning.vocabulary import AccessSource

SIZE = 100_000  # bytes of a file


def layout(**folders: int) -> DatasetLayout:
    """Make a layout of folders with these numbers of files: ``train=100`` has train/000000.jpg to train/000099.jpg."""
    names = [f"{folder}/{number:06}.jpg" for folder, count in folders.items() for number in range(count)]
    return make_layout(FileFact(number, name, SIZE) for number, name in enumerate(names))


def shuffled(files: Iterable[int], seed: int) -> list[int]:
    order = list(files)
    random.Random(seed).shuffle(order)
    return order


def opens(
    order: Iterable[int], start: float = 0.0, every: float = 0.01, readers: Sequence[int] = (1,)
) -> Iterator[SeenAccess]:
    """Open one file after the other, by readers in turn."""
    for index, file in enumerate(order):
        reader = readers[index % len(readers)]
        yield SeenAccess(start + index * every, file, 0, 0, reader, AccessSource.FANOTIFY)


def by_batches(order: Sequence[int], workers: int, batch: int) -> list[tuple[int, int]]:
    """Distribute batches to workers of equal speed, like PyTorch's DataLoader: (file, worker)."""
    batches = [order[at : at + batch] for at in range(0, len(order), batch)]
    rows = []
    for first in range(0, len(batches), workers):
        group = batches[first : first + workers]
        rows += [(one[step], worker) for step in range(batch) for worker, one in enumerate(group) if step < len(one)]
    return rows

"""Reference caches of files of one size: one that knows the future, and two without knowledge. Pure."""

from collections import OrderedDict
from collections.abc import Sequence


def hits_by_next_use(epochs: Sequence[Sequence[int]], room: int) -> list[int]:
    """Return the hits of each epoch with room for this number of files.

    An arriving file replaces a cached file with a later next use, or with none (Belady 1966, with the right to cache
    nothing).
    """
    reads = [file for epoch in epochs for file in epoch]
    following, later = [0] * len(reads), dict[int, int]()
    for at in range(len(reads) - 1, -1, -1):
        following[at] = later.get(reads[at], len(reads))
        later[reads[at]] = at
    here: dict[int, int] = {}  # file -> position of its next read
    hits, at = [0] * len(epochs), 0
    for number, epoch in enumerate(epochs):
        for file in epoch:
            hits[number] += file in here
            here[file] = following[at]
            if len(here) > room:
                del here[max(here, key=here.__getitem__)]
            at += 1
    return hits


def hits_of_what_came_first(epochs: Sequence[Sequence[int]], room: int) -> list[int]:
    """Return the hits of each epoch if the first files stay."""
    here: set[int] = set()
    hits = [0] * len(epochs)
    for number, epoch in enumerate(epochs):
        for file in epoch:
            hits[number] += file in here
            if len(here) < room:
                here.add(file)
    return hits


def hits_of_recent_use(epochs: Sequence[Sequence[int]], room: int) -> list[int]:
    """Return the hits of each epoch with eviction of the least recently used file."""
    here: OrderedDict[int, None] = OrderedDict()
    hits = [0] * len(epochs)
    for number, epoch in enumerate(epochs):
        for file in epoch:
            hits[number] += file in here
            here[file] = None
            here.move_to_end(file)
            if len(here) > room:
                here.popitem(last=False)
    return hits

"""Caches of files of one size, to compare others with: one that knows the future, and two that know nothing. Pure."""

from collections import OrderedDict
from collections.abc import Sequence


def hits_by_next_use(epochs: Sequence[Sequence[int]], room: int) -> list[int]:
    """Return the hits of each epoch with room for so many files.

    A file that comes is kept if one that is here is used later than itself, or never, which then leaves (Belady 1966,
    with the right to keep nothing).
    """
    reads = [file for epoch in epochs for file in epoch]
    following, later = [0] * len(reads), dict[int, int]()
    for at in range(len(reads) - 1, -1, -1):
        following[at] = later.get(reads[at], len(reads))
        later[reads[at]] = at
    here: dict[int, int] = {}  # file -> when it is read next
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
    """Return the hits of each epoch where the first files that came stay."""
    here: set[int] = set()
    hits = [0] * len(epochs)
    for number, epoch in enumerate(epochs):
        for file in epoch:
            hits[number] += file in here
            if len(here) < room:
                here.add(file)
    return hits


def hits_of_recent_use(epochs: Sequence[Sequence[int]], room: int) -> list[int]:
    """Return the hits of each epoch where the least recently used file makes way."""
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

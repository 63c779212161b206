"""A cache that knows the future, to compare others with: of files of one size, what is used last makes way. Pure."""

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

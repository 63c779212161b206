"""How a node asks another one for several small files at once: what fits, and how their sizes are told. Pure.

The request is that for one file with more paths and ``together``; the answer has all of them one after the other, and
says in a header how long each is. Whoever gives says beforehand how many it gives so: earlier releases give one.
"""

from collections.abc import Sequence

# Files of one request, bytes of all of them, and characters of its query: a request line has 8 KiB at most.
MOST_FILES, MOST_BYTES, MOST_QUERY = 8, 2**20, 6000
# Characters of a query that a byte of a path takes at most.
MOST_ESCAPED = 3
# How many a node gives by one request, told with what it has; and the sizes in an answer: -1 for what is not there.
TOGETHER, SIZES = "Stoker-Together", "Stoker-Sizes"
# In the query of a file for which a reader waits: earlier releases give it as any other.
READER = "reader"


def parse_together(text: str) -> int:
    """Read how many a node gives by one request: 0 where it does not say, or cannot mean it."""
    return min(MOST_FILES, int(text)) if text.isascii() and text.isdigit() and len(text) < 4 else 0


def told_sizes(sizes: Sequence[int | None]) -> str:
    """Write the sizes of what is in an answer; None: it is not there."""
    return ",".join("-1" if size is None else str(size) for size in sizes)


def sizes_of(text: str, wanted: Sequence[int]) -> list[int | None] | None:
    """Read the sizes in an answer; None: it is none to what was asked for, whose sizes are ``wanted``."""
    told = text.split(",", MOST_FILES)
    if len(told) != len(wanted) or any(one not in ("-1", str(size)) for one, size in zip(told, wanted, strict=True)):
        return None
    return [None if one == "-1" else size for one, size in zip(told, wanted, strict=True)]

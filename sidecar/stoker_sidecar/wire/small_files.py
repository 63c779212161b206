"""Requests for several small files of a peer at once: limits, and the encoding of their sizes. Pure.

The request is that for one file, with further paths and ``together``. The answer has all files one after the other, and
a header with their lengths. A peer announces how many files it sends this way: earlier releases send one.
"""

from collections.abc import Sequence

# Files of one request, bytes of all of them, and characters of its query. A request line has at most 8 KiB.
MOST_FILES, MOST_BYTES, MOST_QUERY = 8, 2**20, 6000
# Maximum characters of a query for a byte of a path.
MOST_ESCAPED = 3
# The announced number of files per request, in the inventory; and the sizes in an answer, with -1 for a missing file.
TOGETHER, SIZES = "Stoker-Together", "Stoker-Sizes"
# In the query for a file with a waiting reader. Earlier releases ignore it.
READER = "reader"


def parse_together(text: str) -> int:
    """Parse the announced number of files per request; 0 if it is missing or invalid."""
    return min(MOST_FILES, int(text)) if text.isascii() and text.isdigit() and len(text) < 4 else 0


def told_sizes(sizes: Sequence[int | None]) -> str:
    """Encode the sizes of files in an answer; None means a missing file."""
    return ",".join("-1" if size is None else str(size) for size in sizes)


def sizes_of(text: str, wanted: Sequence[int]) -> list[int | None] | None:
    """Decode the sizes in an answer; None if they do not match the request, whose sizes are ``wanted``."""
    told = text.split(",", MOST_FILES)
    if len(told) != len(wanted) or any(one not in ("-1", str(size)) for one, size in zip(told, wanted, strict=True)):
        return None
    return [None if one == "-1" else size for one, size in zip(told, wanted, strict=True)]

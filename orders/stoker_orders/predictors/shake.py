"""The permutations of stoker-client, by the algorithm of docs/CLIENT.md: SHAKE-128 of a text, and Fisher-Yates."""

import hashlib
import sys
from array import array
from collections.abc import Iterator

_VERSION = "stoker/1"
_BLOCK = 8192  # numbers of one text, 64 bits each


def words(count: int, *key: str | int) -> Iterator[int]:
    """Yield so many numbers of 64 bits: those of a key."""
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

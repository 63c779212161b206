"""Random numbers and permutations that any language can repeat exactly: SHAKE-128 of a short text, and Fisher-Yates.

docs/guides/client.md has the algorithm and test values. It never changes under the same version word.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterator

_VERSION = "stoker/1"
_BLOCK = 8192  # numbers of a block: 64 KiB at a time, for any length of the order


def words(count: int, *key: object) -> Iterator[int]:
    """Yield ``count`` numbers of 64 bits, which depend only on the key: a few words and whole numbers.

    Block b of 8,192 numbers is the output of SHAKE-128 for the text "stoker/1 KEY... b", each number little-endian.
    """
    text = " ".join(map(str, (_VERSION, *key)))
    for block in range(-(-count // _BLOCK)):
        wanted = min(_BLOCK, count - block * _BLOCK)
        numbers = array("Q", hashlib.shake_128(f"{text} {block}".encode()).digest(8 * wanted))
        if sys.byteorder == "big":
            numbers.byteswap()
        yield from numbers


def permutation(length: int, *key: object) -> array[int]:
    """Return the numbers from 0 to length - 1 in the order of the key; 4 bytes each.

    Place i is exchanged with place i + (number i modulo (length - i)), for i from 0.
    """
    order = array("I" if length < 2**32 else "Q", range(length))
    for place, word in enumerate(words(length - 1, *key)):
        other = place + word % (length - place)
        order[place], order[other] = order[other], order[place]
    return order

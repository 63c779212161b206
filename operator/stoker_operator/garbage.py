"""Cyclic garbage is looked for among what is new: a look at a mirror of millions of objects stops the loop too long.

Nearly everything here goes by counting references. What is in a cycle is found while it is young; what lived longer and
then went is found by one look at everything, a few times a day.
"""

import asyncio
import gc

YOUNG = (1_000, 10, 1_000_000)  # gc.set_threshold: some 10,000 objects at a time, and all of them never by itself
ROUND = 10.0  # seconds after which what is still there counts as old
EVERYTHING = 6 * 3600.0  # seconds between two looks at everything


def begin() -> None:
    """Look at young objects alone from now on."""
    gc.set_threshold(*YOUNG)


def set_aside() -> None:
    """Look through what is new, and never again at what is left of it."""
    gc.collect(1)
    gc.freeze()


async def keep_apart() -> None:
    """Set aside what lives long, again and again, until cancelled."""
    begin()
    while True:
        for _ in range(int(EVERYTHING / ROUND)):
            await asyncio.sleep(ROUND)
            set_aside()
        gc.unfreeze()
        gc.collect()

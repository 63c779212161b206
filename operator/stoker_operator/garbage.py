"""Cyclic garbage is looked for among what is new: a look at a mirror of millions of objects stops the loop too long.

Nearly everything here goes by counting references. What is in a cycle is found while it is young. What lived longer and
then went takes memory, so everything is looked at when a process has grown without reason, and not before: Python has
no way to divide such a look, which takes 0.3 s or more in a large cluster.
"""

import asyncio
import gc
import logging
import resource
import time
from pathlib import Path

log = logging.getLogger(__name__)

# gc.set_threshold: some 3,000 objects at a time, and all of them never by itself. What lives is looked at twice however
# small the first two are, but 10,000 objects were a pause of up to 15 ms on a busy machine.
YOUNG = (700, 4, 1_000_000)
ROUND = 10.0  # seconds after which what is still there counts as old
# Looks at young objects after which a round ends early. 100 leave 280,000 objects at most, and a look at those took 30
# ms; how many there are is asked each second.
MOST_LOOKS = 30
EVERYTHING = 6 * 3600.0  # seconds between two looks at how much there is
GROWN = 1.25  # times as much as at the last look: a cluster that grew, or cycles
LEAST_GROWTH = 100 * 2**20  # bytes that are worth a pause


def begin() -> None:
    """Look at young objects alone from now on."""
    gc.set_threshold(*YOUNG)


def set_aside() -> None:
    """Look through all that is new since the last time, and never again at what is left of it.

    Also at what Python counts as old, since it was in use during two looks at young objects. What kopf makes of an
    event is a cycle with the whole object in it, and many were set aside when nobody had them any more.
    """
    gc.collect()
    gc.freeze()


def look_at_everything() -> float:
    """Find what went after it was set aside; gives the seconds that it took."""
    began = time.monotonic()
    gc.unfreeze()
    found = gc.collect()
    taken = time.monotonic() - began
    log.info("looked at all objects for cycles, in %.2f s, and found %d that nobody has", taken, found)
    return taken


def has_grown(before: int, now: int) -> bool:
    """Tell whether so many bytes are so many more than before that all objects should be looked at."""
    return now > GROWN * before and now - before > LEAST_GROWTH


def resident_bytes() -> int:
    """Return what this process has in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


async def keep_apart() -> None:
    """Set aside what lives long, again and again, until cancelled."""
    begin()
    before: int | None = None  # the first time it has just started
    while True:
        end = time.monotonic() + EVERYTHING
        while time.monotonic() < end:
            await _round()
            set_aside()
        now = resident_bytes()
        if before is not None and has_grown(before, now):
            look_at_everything()
            now = resident_bytes()
        before = now if before is None else max(before, now)


async def _round() -> None:
    """Wait until enough is new, or for long enough."""
    for _ in range(int(ROUND)):
        await asyncio.sleep(1.0)
        if gc.get_count()[2] >= MOST_LOOKS:
            return

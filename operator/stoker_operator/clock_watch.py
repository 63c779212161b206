"""Tells when the wall clock was set back: a leader that noted times by it would wait until they come again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

LOOK_EVERY = 5.0  # seconds between two looks
MOST_BACK = 10.0  # seconds that are waited for; NTP's own corrections are far less between two looks


async def until_set_back(
    wall: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> float:
    """Wait until the clock is set back by more than ``MOST_BACK`` at once; returns by how many seconds.

    ``wall``: seconds since the epoch. ``steady``: seconds of a clock that nobody sets.
    """
    before = wall() - steady()
    while True:
        await sleep(LOOK_EVERY)
        now = wall() - steady()
        if before - now > MOST_BACK:
            return before - now
        before = now

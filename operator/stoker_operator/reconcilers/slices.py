"""Long work on the event loop, in slices: whoever renews the Lease or answers the webhook is never kept waiting."""

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
SLICE = 0.005  # seconds: half of what a pod that is made may wait for the webhook, and a step may take longer than that
# Seconds for which others then have the loop to themselves. An answer takes several turns of it, and with one turn a
# slice each of them would wait for a slice of its own.
PAUSE = 0.001


async def in_slices(work: Generator[None, None, T], seconds: float = SLICE) -> T:
    """Run ``work`` to its end and return its result; others get their turn after each ``seconds``, at a yield."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        if loop.time() >= end:
            await asyncio.sleep(PAUSE)
            end = loop.time() + seconds

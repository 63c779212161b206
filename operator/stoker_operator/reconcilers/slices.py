"""Long work on the event loop, in slices: whoever renews the Lease or answers the webhook is never kept waiting."""

import asyncio
from collections.abc import Generator
from typing import TypeVar

from stoker_operator.foreground import FOREGROUND

T = TypeVar("T")
SLICE = 0.002  # seconds: a fifth of what a pod that is made may wait for the webhook, and a step may take longer
# Turns of the loop for others after each slice: what came in is read, and its handler begins. From then on it is known
# to be under way, and has the loop to itself.
_TURNS = 4
MOST = 0.02  # seconds for which work gives way to requests, before it has a slice again


async def in_slices(work: Generator[None, None, T], seconds: float = SLICE) -> T:
    """Run ``work`` to its end and return its result; others get their turn after each ``seconds``, at a yield."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        if clock() >= end:
            await _give_way()
            end = clock() + seconds


async def _give_way() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    await FOREGROUND.answered(MOST)

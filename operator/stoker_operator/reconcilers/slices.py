"""Long decisions in slices: whoever shares the event loop, the webhook and the Lease first, waits for one at most."""

import asyncio
from collections.abc import Generator
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

SLICE = 0.005  # seconds of work at a time: a webhook's answer takes as long
REST = 0.002  # seconds for everybody else after each


async def in_slices(work: Generator[None, None, T]) -> T:
    """Take all steps of ``work``, and give the loop back after each slice of them; gives what it returns."""
    until = perf_counter() + SLICE
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        if perf_counter() >= until:
            await asyncio.sleep(REST)
            until = perf_counter() + SLICE

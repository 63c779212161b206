"""Long work on the event loop, in slices: whoever renews the Lease or answers the webhook is never kept waiting."""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

from stoker_operator.work_turns import SLICE, WORK

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    result: T


async def in_slices(work: Generator[None, None, T], seconds: float = SLICE) -> T:
    """Run ``work`` to its end and return its result; others get their turn after each ``seconds``, at a yield."""
    while True:
        async with WORK.one(seconds):
            done = _work(work, seconds)
        if done is not None:
            return done.result


def _work(work: Generator[None, None, T], seconds: float) -> _Done[T] | None:
    """Work for so long, or until it is done."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            next(work)
        except StopIteration as done:
            return _Done(done.value)
        if clock() >= end:
            return None

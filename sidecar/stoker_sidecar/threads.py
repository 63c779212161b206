"""Runs blocking work in a thread, to its end: a cancelled task must not close files that its thread still writes."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return the result of ``work``. Cancelled, it still waits until the thread is done, then raises CancelledError."""
    return await to_its_end(asyncio.ensure_future(asyncio.to_thread(work, *arguments, **options)))


async def to_its_end(running: "asyncio.Future[T]", hurry: Callable[[], object] = lambda: None) -> T:
    """Return the result of a task that runs in a thread.

    Cancelled, it calls ``hurry``, waits until the thread is done and raises CancelledError.
    """
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        hurry()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # retrieve it, since the waiting caller is gone
        raise

"""Runs blocking work in a thread, to its end: a cancelled task must not close the files that its thread still writes."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """The result of ``work``. Cancelled, it still waits until the thread is done, then raises CancelledError."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **options))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # taken note of: whoever waited is gone
        raise

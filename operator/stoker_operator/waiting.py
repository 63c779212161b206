"""Waiting for the first of two things."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def done_before(wanted: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]) -> bool:
    """Await whichever ends first, and cancel the other; True when it was ``wanted``. Raises what that one raised."""
    tasks = [asyncio.create_task(wanted), asyncio.create_task(other)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    if tasks[0] in done:
        tasks[0].result()
        return True
    return False

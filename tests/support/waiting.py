"""Wait for a condition with a deadline, instead of a fixed sleep."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
# Limits for hanging tests, not for slow ones: a busy machine takes ten times as long as an idle one.
SECONDS = 30.0
SECONDS_OF_PROCESSES = 60.0


def wait_until(condition: Callable[[], bool], seconds: float = SECONDS_OF_PROCESSES) -> None:
    """Poll every 10 ms until ``condition`` holds, in a test without an event loop. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    tick = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s in vain for {condition}")
        tick.wait(0.01)


async def eventually(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Let other tasks of the event loop run until ``condition`` holds. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        if loop.time() > deadline:
            raise TimeoutError(f"waited {seconds} s in vain for {condition}")
        turn = loop.create_future()
        # A few milliseconds: sockets and threads get their turn, and the test does not spin.
        loop.call_later(0.005, turn.set_result, None)
        await turn


async def take(count: int, stream: AsyncIterator[T], seconds: float = SECONDS) -> list[T]:
    """Return the next ``count`` items. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        return [await anext(stream) for _ in range(count)]


async def eventually_async(look: Callable[[], Awaitable[T | None]], seconds: float = SECONDS) -> T:
    """Poll, with a pause between two calls, until the answer is true. Return the answer. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not (answer := await look()):
        if loop.time() > deadline:
            raise TimeoutError(f"waited {seconds} s in vain for {look}")
        turn = loop.create_future()
        loop.call_later(0.05, turn.set_result, None)  # limits the load of the polled server
        await turn
    return answer


async def all_sockets_closed() -> None:
    """Wait until all TLS connections have closed. Raises TimeoutError.

    Clients' close() does not wait for that, and the loop ends with the test. asyncio gives a peer 30 s to end its side.
    It shows a loop's transports only in this private table.
    """
    transports = getattr(asyncio.get_running_loop(), "_transports", {})
    await eventually(
        lambda: all(
            transport.get_extra_info("socket") is None or transport.is_closing() for transport in transports.values()
        ),
        2 * SECONDS,
    )

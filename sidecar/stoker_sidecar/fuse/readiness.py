"""Makes pyfuse3 take requests that are there already without a turn of the event loop for each.

Most of what an operation costs.

pyfuse3 waits for each request with ``trio.lowlevel.wait_readable``, which registers the descriptor with epoll, lets the
loop turn and is woken by it, inside a ``trio.Lock``, which lets the loop turn once more. Its ``trio`` may be replaced,
as its own support of asyncio does.
"""

import select
from functools import cache
from types import SimpleNamespace

import pyfuse3
import trio

# Requests that may be taken one after the other before other tasks (answers of the fetcher, reads that go on) have
# their turn.
_IN_A_ROW = 8


def take_ready_requests() -> None:
    """Replace what pyfuse3 knows as ``trio``; to be called before ``pyfuse3.main``."""
    lowlevel = SimpleNamespace(**vars(trio.lowlevel) | {"wait_readable": wait_readable})
    vars(pyfuse3)["trio"] = SimpleNamespace(**vars(trio) | {"lowlevel": lowlevel, "Lock": ReadLock})


class ReadLock:
    """The lock around taking the next request.

    A task that had it and comes back at once gets it again, before those that wait.

    So a task that can answer its request without waiting goes on with the next one; when it has to wait, another one
    goes on.
    """

    def __init__(self) -> None:
        self._held = False
        self._taken = 0
        self._waiting = trio.lowlevel.ParkingLot()

    async def __aenter__(self) -> None:
        self._taken += 1
        if self._taken % _IN_A_ROW == 0:
            await trio.lowlevel.checkpoint()
        while self._held:
            await self._waiting.park()
        self._held = True

    async def __aexit__(self, *_: object) -> None:
        self._held = False
        self._waiting.unpark()


async def wait_readable(fd: int) -> None:
    """Return when there is something to read: at once, without a turn of the event loop, when that is so already."""
    if not _poll(fd).poll(0):
        await trio.lowlevel.wait_readable(fd)


@cache
def _poll(fd: int) -> select.poll:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return poll

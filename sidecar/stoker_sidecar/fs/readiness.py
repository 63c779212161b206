"""Has pyfuse3 take a request that is there already without a turn of the event loop: over a third of what an operation costs.

pyfuse3 waits for each request with ``trio.lowlevel.wait_readable``, which registers the descriptor with epoll, lets the loop turn and is
woken by it. Its ``trio`` may be replaced, as its own support of asyncio does. Others still get their turn: its lock gives way each time.
"""

import select
from functools import cache
from types import SimpleNamespace

import pyfuse3
import trio


def take_ready_requests() -> None:
    """To be called before ``pyfuse3.main``."""
    lowlevel = SimpleNamespace(**vars(trio.lowlevel) | {"wait_readable": wait_readable})
    vars(pyfuse3)["trio"] = SimpleNamespace(**vars(trio) | {"lowlevel": lowlevel})


async def wait_readable(fd: int) -> None:
    """At once, without a turn of the event loop, when there is something to read."""
    if not _poll(fd).poll(0):
        await trio.lowlevel.wait_readable(fd)


@cache
def _poll(fd: int) -> select.poll:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return poll

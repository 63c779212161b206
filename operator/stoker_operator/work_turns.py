"""Long work on the event loop takes turns: one piece at a time in a process, and requests go between two pieces.

Passes, and reports as they are read, take some milliseconds each. Were several of them ready in one turn of the loop,
a review would wait for all of them, and more than once: from its bytes to its answer it takes a few turns of the loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from stoker_operator.foreground import FOREGROUND, ForegroundRequests

SLICE = 0.002  # seconds: a fifth of what a pod that is made may wait for the webhook, and a step may take longer
# Turns of the loop for others after each slice: what came in is read, and its handler begins. From then on it is known
# to be under way, and has the loop to itself.
_TURNS = 4
MOST = 0.02  # seconds for which work gives way to requests, before it has a slice again


class _Turns:
    """Whose turn it is on one event loop, and for how long nobody gave way."""

    def __init__(self) -> None:
        self.lock: Final = asyncio.Lock()
        self.worked = 0.0  # seconds


class WorkTurns:
    """The turns of all that works long; to be used from the event loop's thread alone."""

    def __init__(self, foreground: ForegroundRequests) -> None:
        self._foreground: Final = foreground
        # A lock belongs to its loop for ever, and tests have many.
        self._of: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns]] = WeakKeyDictionary()

    @asynccontextmanager
    async def one(self, seconds: float = SLICE) -> AsyncIterator[None]:
        """Work while inside, with nobody else's long work beside it; do not wait for anything there.

        Requests have their turn afterwards, once ``seconds`` were worked since they had the last one.
        """
        loop = asyncio.get_running_loop()
        turns = self._of.setdefault(loop, _Turns())
        async with turns.lock:
            began = loop.time()
            yield
            turns.worked += loop.time() - began
            if turns.worked >= seconds:
                turns.worked = 0.0
                await self._give_way()

    async def _give_way(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        await self._foreground.answered(MOST)


WORK = WorkTurns(FOREGROUND)  # of this process

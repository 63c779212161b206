"""Tells for how long the event loop is held up, by its own work or for want of a CPU."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

# Seconds between two looks. What is shorter is not seen; what is longer is told to within this much.
PERIOD = 0.02


class LoopWatch:
    """Asks the event loop for a turn again and again, and looks how late it comes.

    ``observe(late, busy)`` is told of each turn, in seconds: how much later than asked it came, and for how much of
    that the loop's own thread computed. The rest it waited, for a CPU or for something that blocks.
    """

    def __init__(
        self,
        observe: Callable[[float, float], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._observe: Final = observe
        self._clock: Final = clock
        self._cpu: Final = cpu
        self._sleep: Final = sleep

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            began, used = self._clock(), self._cpu()
            await self._sleep(PERIOD)
            late = max(0.0, self._clock() - began - PERIOD)
            self._observe(late, min(late, self._cpu() - used))

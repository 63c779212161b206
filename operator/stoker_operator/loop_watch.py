"""Tells how long turns of the event loop take: everything else that the loop serves waits that long."""

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Final

LEAST = 0.005  # seconds: shorter turns are not told of
Observe = Callable[[float, float], None]


class TurnTimer(selectors.DefaultSelector):
    """What an event loop waits with; from the end of one wait to the next one is a turn of the loop.

    ``observe(taken, computed)`` is told of long turns, in seconds: how long one was, and for how much of that the
    loop's thread computed. The rest it stood still, for want of a CPU or in a call that blocks. It costs no wake-ups.
    """

    def __init__(
        self,
        observe: Observe,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        super().__init__()
        self._observe: Final = observe
        self._clock: Final = clock
        self._cpu: Final = cpu
        self._began: tuple[float, float] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Tell of the turn that ends, and wait for the next one."""
        if self._began is not None and (taken := self._clock() - self._began[0]) >= LEAST:
            self._observe(taken, min(taken, self._cpu() - self._began[1]))
        ready = super().select(timeout)
        self._began = self._clock(), self._cpu()
        return ready


def timed_loop(observe: Observe) -> asyncio.AbstractEventLoop:
    """Make an event loop whose long turns are told of."""
    return asyncio.SelectorEventLoop(TurnTimer(observe))

"""An event loop whose clock jumps: waits cost no time, so hangs of minutes are tested in milliseconds."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LIMIT = 86_400.0  # seconds of virtual time after which a test counts as stuck


class _Jumping(selectors.SelectSelector):
    """A selector that advances the clock instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("everything waits, and nothing is to come")
        if not ready and timeout:
            self.now += timeout
        assert self.now < LIMIT, "nothing has come of it in a day"
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop. It uses only its own time."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._jumping.now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` in such a loop. Return its result. It must do no I/O and use no threads."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)

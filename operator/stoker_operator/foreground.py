"""Requests that somebody waits for this very moment: long work on the event loop gives way until they are answered."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count as numbers

_LOOK = 0.001  # seconds between two looks at whether they are answered
_SHORT = 0.1  # seconds; who takes longer waits for something else than this process, such as the rest of a body


class ForegroundRequests:
    """The requests under way; to be used from the event loop's thread alone."""

    def __init__(self) -> None:
        self._numbers = numbers()
        self._began: dict[int, float] = {}

    @property
    def count(self) -> int:
        """How many there are now, whatever they wait for."""
        return len(self._began)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a request while inside, and while it has not taken long."""
        number = next(self._numbers)
        self._began[number] = _clock()()
        try:
            yield
        finally:
            del self._began[number]

    async def answered(self, seconds: float) -> None:
        """Wait until none is under way, at most so long: a crowd of requests must not end all other work."""
        clock = _clock()
        end = clock() + seconds
        while clock() < end and self._presses(clock()):  # noqa: ASYNC110 -- an event would belong to one loop for ever
            await asyncio.sleep(_LOOK)

    def _presses(self, now: float) -> bool:
        return any(now - began < _SHORT for began in self._began.values())


def _clock() -> Callable[[], float]:
    return asyncio.get_running_loop().time


FOREGROUND = ForegroundRequests()  # of this process: one event loop acts in it, and answers the webhook

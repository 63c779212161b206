"""Long waits: they print progress, and fail without progress, for any size of a cluster."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.errors import BenchError
from stoker_api.meta import format_duration

_STANDSTILL = 300.0  # seconds without progress after which a wait fails
_SAY_SECONDS = 15.0


@dataclass
class LongWait:
    """A wait for ``of`` things. Pass the current number to ``look``."""

    what: str
    of: int
    say: Callable[[str], None]
    _began: float = field(init=False)
    _first: int | None = field(init=False, default=None)
    _last: int | None = field(init=False, default=None)
    _moved: float = field(init=False)
    _said: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._moved = self._said = time.monotonic()

    def look(self, done: int) -> bool:
        """Take the current number. Return True if all are there.

        Prints progress now and then. Raises BenchError if the number has not changed for too long.
        """
        now = time.monotonic()
        if done != self._last:
            self._first = done if self._first is None else self._first
            self._last, self._moved = done, now
        if now - self._said >= _SAY_SECONDS:
            self._said = now
            self.say(f"  {self.what}: {done:,} of {self.of:,}{self._left(done, now)}")
        if done < self.of and now - self._moved >= _STANDSTILL:
            raise BenchError(f"{self.what}: {done:,} of {self.of:,}, and no more within {_STANDSTILL:.0f} s")
        return done >= self.of

    def _left(self, done: int, now: float) -> str:
        come = done - (self._first or 0)
        if come <= 0 or done >= self.of:
            return ""
        return f", about {format_duration(round((self.of - done) * (now - self._began) / come))} left"

"""Waits that take minutes: they say how far they are, and end when nothing moves any more, however large a cluster."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.errors import BenchError
from stoker_api.meta import format_duration

STANDSTILL = 300.0  # seconds in which nothing moves: whoever waits then waits in vain
_SAY_SECONDS = 15.0


@dataclass
class LongWait:
    """A wait for ``of`` things; tell it with ``look`` how many there are. ``clock`` counts seconds."""

    what: str
    of: int
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    standstill: float = STANDSTILL
    _began: float = field(init=False)
    _first: int | None = field(init=False, default=None)
    _last: int | None = field(init=False, default=None)
    _moved: float = field(init=False)
    _said: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._moved = self._said = self.clock()

    def look(self, done: int, more: str = "") -> bool:
        """Take how many there are now, and tell whether these are all.

        Says so now and then, with ``more``. Raises BenchError when the number has been the same for too long.
        """
        now = self.clock()
        if done != self._last:
            self._first = done if self._first is None else self._first
            self._last, self._moved = done, now
        if now - self._said >= _SAY_SECONDS:
            self._said = now
            self.say(f"  {self.what}: {done:,} of {self.of:,}{self._left(done, now)}{more}")
        if done < self.of and now - self._moved >= self.standstill:
            raise BenchError(f"{self.what}: {done:,} of {self.of:,}, and no more within {self.standstill:.0f} s")
        return done >= self.of

    def _left(self, done: int, now: float) -> str:
        come = done - (self._first or 0)
        if come <= 0 or done >= self.of:
            return ""
        return f", about {format_duration(round((self.of - done) * (now - self._began) / come))} left"

"""How many requests to keep in flight.

The limit rises while throughput rises, and falls when the source reports overload.

Method: hill climbing on throughput (as TCP's slow start: doubling, then small steps), and a multiplicative step back on
congestion. Latency needs no measurement: a distant source gains from more requests for longer.
"""

from dataclasses import dataclass

START = 16
LEAST = 4
# More small GETs than this gained nothing at 20 ms of latency. Each holds a connection and up to a megabyte.
MOST = 256
# Seconds for which a level is measured. While it doubles, short: each window below the best level is lost for a
# source at 100 ms, and a doubling that was one too many costs little. For small steps, long enough that noise is
# below what a step should gain.
_DOUBLE_WINDOW, _WINDOW = 0.1, 0.3
# Overhead of a request, in bytes. It makes small files and large chunks comparable in one figure of progress.
_REQUEST_COST = 256 * 1024
# A doubling must gain a tenth, a small step a twentieth; else the step is taken back.
_DOUBLE, _DOUBLE_GAIN = 2.0, 1.10
_STEP, _STEP_GAIN = 1.25, 1.05
_SHRINK = 0.7
# Windows at one level before the next small step up is tried: links change in seconds, not in tenths.
_REST = 10
# How often in a row a doubling may fail before small steps follow, and windows in between: something else that takes
# the processor for half a second would leave a distant source with too few requests for many.
_DOUBLINGS, _DOUBLE_REST = 3, 3


@dataclass
class AdaptiveLimit:
    """The adaptive limit of requests in flight.

    ``value``: the limit. ``now`` everywhere: seconds of the caller's clock.
    """

    value: int = START
    least: int = LEAST
    most: int = MOST
    _since: float | None = None
    _work: int = 0
    _completed: int = 0
    _busy: bool = True  # the limit held requests back, all through this window
    _idle: int = 0  # requests that landed in a row while fewer were in flight than may be
    _rate: float = 0.0  # of the window before the last step
    _before: int = 0  # the value before the last step; 0: no step is on trial
    _window: float = _DOUBLE_WINDOW
    _factor: float = _DOUBLE
    _gain: float = _DOUBLE_GAIN
    _rest: int = 0
    _missed: bool = False  # the doubling on trial has not gained in its first window
    _failures: int = 0  # of doublings, in a row
    _shrunk: float = float("-inf")

    def completed(self, size: int, now: float, *, busy: bool) -> None:
        """Learn from a request that brought ``size`` bytes. ``busy``: the limit was reached then.

        Answers arrive in groups, and only the first of a group finds the limit reached. So the limit counts as the
        bottleneck unless ``value`` requests have landed since it was last reached.
        """
        self._since = now if self._since is None else self._since
        self._work += size + _REQUEST_COST
        self._completed += 1
        self._idle = 0 if busy else self._idle + 1
        self._busy = self._busy and self._idle < self.value
        # All requests in flight at the step have landed, so the count belongs to this value.
        if now - self._since >= self._window and self._completed >= self.value:
            rate, busy = self._work / (now - self._since), self._busy
            self._begin(now)
            if busy:
                self._judge(rate)
            else:
                self._before = 0

    def congested(self, now: float) -> None:
        """Step back after a request was throttled or timed out, once for all that were in flight together."""
        if now - self._shrunk >= _WINDOW:
            self._shrunk = now
            self._settle(max(self.least, int(self.value * _SHRINK)))
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._since, self._work, self._completed, self._busy = now, 0, 0, True

    def _judge(self, rate: float) -> None:
        if self._before and rate < self._rate * self._gain:
            self._not_gained()
        elif self._rest > 0:
            self._rest -= 1
        else:
            self._failures = 0 if self._before else self._failures
            self._before, self._rate, self._missed = self.value, rate, False
            self.value = min(self.most, max(self.value + 1, int(self.value * self._factor)))

    def _not_gained(self) -> None:
        """Undo a step. A doubling is undone only after a second window, since a short one may contain a pause."""
        if self._factor != _DOUBLE:
            self._settle(self._before)
        elif not self._missed:
            self._missed = True
        else:
            self._failures += 1
            if self._failures == _DOUBLINGS:
                self._settle(self._before)
            else:
                self.value, self._before, self._rest = self._before, 0, _DOUBLE_REST

    def _settle(self, value: int) -> None:
        self.value, self._before, self._rest = value, 0, _REST
        self._window, self._factor, self._gain = _WINDOW, _STEP, _STEP_GAIN

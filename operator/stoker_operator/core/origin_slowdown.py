"""How far all nodes go back when an origin asks for less, and how they find out that it takes more again."""

from dataclasses import dataclass

from stoker_operator.core.origin_policy import NO_CAP, Cap

# A SlowDown takes three tenths off, once for all that nodes report within a few seconds of each other: what was in
# flight when the first one was heard says nothing of the lower rate.
_LESS, _TOGETHER = 0.7, 10.0
# Seconds of calm before each step up, by a tenth: 2 minutes from 0.7 to 1.6.
CALM, _MORE = 15.0, 1.1
# The least of the rate at which it had enough, and the most: there it is as if nothing had been.
_LEAST, _FREE = 1 / 16, 2.0


@dataclass
class Slowdown:
    """What is left of a SlowDown at one bucket. Seconds since the epoch.

    ``enough``: the rates at which the bucket had enough, as all nodes reported them then; None: nobody had measured.
    """

    enough: Cap
    factor: float = _LESS
    lowered: float = 0.0
    raised: float = 0.0

    @classmethod
    def begun(cls, measured: Cap, cap: Cap, now: float) -> "Slowdown":
        """Begin with the first one; ``cap``: the administrator's."""
        enough = Cap(
            _less(measured.bytes_per_second or None, cap.bytes_per_second),
            _less(measured.milli_requests_per_second or None, cap.milli_requests_per_second),
        )
        return cls(enough, lowered=now, raised=now)

    def again(self, now: float) -> bool:
        """Take another SlowDown; tells whether it is more than an echo of the last."""
        if 0.0 <= now - self.lowered < _TOGETHER:  # less than nothing: the clock was set back
            return False
        self.factor, self.lowered, self.raised = max(_LEAST, self.factor * _LESS), now, now
        return True

    def rise(self, now: float) -> None:
        """Take a step up where it has been calm for long enough."""
        self.raised = min(self.raised, now)  # else a clock that was set back holds it up
        if now - self.raised >= CALM:
            self.factor, self.raised = self.factor * _MORE, now

    def cap(self, own: Cap) -> Cap:
        """Return what holds meanwhile beside the administrator's cap ``own``."""
        return Cap(
            _less(_times(self.enough.bytes_per_second, self.factor), own.bytes_per_second),
            _less(_times(self.enough.milli_requests_per_second, self.factor), own.milli_requests_per_second),
        )

    def is_over(self, own: Cap) -> bool:
        """Tell whether it limits nothing any more."""
        return self.factor >= _FREE or (own != NO_CAP and self.cap(own) == own)


def _times(amount: int | None, factor: float) -> int | None:
    return None if amount is None else max(1, round(amount * factor))


def _less(one: int | None, other: int | None) -> int | None:
    """Return the smaller one; None is no limit."""
    return other if one is None else one if other is None else min(one, other)

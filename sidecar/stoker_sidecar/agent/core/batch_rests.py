"""Whether readers rest between their batches, by how often they were found to stand still. Pure."""

# A judgement takes so many looks at readers at least, and goes over so many batches of all loaders.
_LEAST_LOOKS, _STRETCHES = 8, 2
# Seconds from one look to the next: of answers that come at once, the second tells nothing.
_APART = 0.2
# Readers who stand still in so many of the looks rest; in so few they do not; in between it is as before.
_RESTING, _BUSY = 0.6, 0.2
# Judgements in a row that find them busy: as an epoch begins all loaders read at once, two batches each.
_BUSY_TIMES = 4


class BatchRests:
    """Tells how the loaders of one order read. ``stretch``: samples of a batch of each. Times in seconds.

    Where a training waits for data, its loaders read a batch each at the same time, all the time. Where it computes
    longer than they read, one loader at a time has a batch to read, and then nobody has.
    """

    def __init__(self, stretch: int) -> None:
        self._stretch = stretch
        self._begin: float | None = None
        self._last = self._looked = 0.0
        self._looks = self._still = self._busy = 0
        self.resting = False

    def saw(self, now: float, step: float) -> bool:
        """Take note of a look that found readers at this step; returns whether ``resting`` has changed."""
        if self._begin is not None and step >= self._last and now - self._looked < _APART:
            return False
        self._looked = now
        if self._begin is None or step < self._last:
            self._begin_at(step)
            return False
        self._looks, self._still = self._looks + 1, self._still + (step == self._last)
        self._last = step
        if step - self._begin < _STRETCHES * self._stretch:
            return False
        still = self._still / self._looks if self._looks >= _LEAST_LOOKS else 0.0
        self._begin_at(step)
        return self._judge(still)

    def _judge(self, still: float) -> bool:
        """Take the share of looks that found readers standing still; returns whether ``resting`` has changed."""
        before, self._busy = self.resting, self._busy + 1 if still <= _BUSY else 0
        self.resting = still >= _RESTING or (self.resting and self._busy < _BUSY_TIMES)
        return self.resting is not before

    def _begin_at(self, step: float) -> None:
        self._begin = self._last = step
        self._looks = self._still = 0

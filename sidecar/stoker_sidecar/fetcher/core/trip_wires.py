"""Where readers are in a known order, by single files of it whose opening the kernel tells. Pure."""

from collections import deque

# Pieces from one such file to the next. A prime, so that it falls on each of several loaders in turn.
STRIDE = 17
# Readers are where so many of the last wires before have been tripped: one may be a stranger's, or a loader is late.
_LAST, _ENOUGH = 4, 3
# Wires that are looked at beyond where readers were seen: 4,352 pieces, which they read in a third of a second at most.
_LOOKED_AT = 256
# The pace is taken over so many seconds at least, and what was seen a second ago counts for a third.
_SPAN, _FADING = 0.02, 1.0
# Seconds for which readers are believed to go on at their pace, without wires or a look at them.
_TRUST = 1.0


class TripWires:
    """Wires on pieces by their number, laid in ascending order. Times in seconds.

    Strangers who open a file of the order now and then move the place by a wire or two: they would have to open most of
    those that come next.
    """

    def __init__(self) -> None:
        self._wires: deque[list[int]] = deque()  # number, and whether it was tripped; those beyond ``passed``
        self._index: dict[int, list[int]] = {}
        self._before: deque[int] = deque([1] * (_LAST - 1), maxlen=_LAST - 1)
        self.passed: int | None = None  # the number of the last piece that readers were seen to have opened
        self.pace = 0.0  # pieces a second; 0: not known
        self._looked = self._moved = 0.0  # when it was looked last, and when readers had moved on then
        self._mark: tuple[float, int] | None = None

    def lay(self, number: int) -> None:
        """Take note that a piece's opening will be told."""
        if number not in self._index and (not self._wires or number > self._wires[-1][0]):
            self._index[number] = wire = [number, 0]
            self._wires.append(wire)

    def place(self, now: float) -> float | None:
        """Return how many pieces readers have gone past; None: it cannot be told by wires."""
        if self.passed is None or not (self._wires or now - self._moved < _TRUST):
            return None
        since = self._looked if self._wires else self._moved
        return self.passed + 1 + self.pace * min(max(0.0, now - since), _TRUST)

    def tripped(self, numbers: list[int], now: float) -> None:
        """Take the wires that were tripped since the last call, which may be none."""
        for number in numbers:
            if (wire := self._index.get(number)) is not None:
                wire[1] = 1
        reached = self._reached() if numbers else 0
        for _ in range(reached):
            number, was = self._wires.popleft()
            del self._index[number]
            self._before.append(was)
            self.passed, self._moved = number, now
        self._looked = now
        if self.passed is not None:
            self._measure(now, self.passed)

    def cut(self) -> None:
        """Forget all wires, and keep where readers are and how fast."""
        self._wires.clear()
        self._index.clear()

    def skip(self, number: int) -> None:
        """Take note that readers are at this piece or behind it: they were not seen to trip what lies before."""
        while self._wires and self._wires[0][0] <= number:
            gone, was = self._wires.popleft()
            del self._index[gone]
            self._before.append(was)

    def _reached(self) -> int:
        """Return how many wires readers have gone past."""
        last, found = deque(self._before, maxlen=_LAST), 0
        for place, (_, was) in enumerate(self._wires):
            if place >= _LOOKED_AT:
                break
            last.append(was)
            if was and sum(last) >= _ENOUGH:
                found = place + 1
        return found

    def _measure(self, now: float, passed: int) -> None:
        if self._mark is None:
            self._mark = now, passed
            return
        span = now - self._mark[0]
        if span < _SPAN:
            return
        pace, fresh = (passed - self._mark[1]) / span, min(1.0, span / _FADING)
        self.pace = pace if not self.pace else self.pace + fresh * (pace - self.pace)
        self._mark = now, passed

"""Locates readers in a known order, by files whose opening the kernel reports. Pure."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection

# Pieces between two watched files. A prime, so that watched files fall on each of several loaders in turn.
STRIDE = 17
# Readers are confirmed at a place if three of the last four wires before it were tripped. One trip may come from an
# unrelated program, or a loader may be late.
_LAST, _ENOUGH = 4, 3
# Wires to check beyond the last known place: 4,352 pieces, which readers read in at most a third of a second.
_LOOKED_AT = 256
# Minimum seconds for a pace estimate, and the age at which an old estimate has a weight of one third.
_SPAN, _FADING = 0.02, 1.0
# Seconds for which the last pace is trusted without new openings.
_TRUST = 1.0
# Wires that readers passed without an opening stay pending, up to this number and this distance in pieces. Fewer than
# the last number are no slow loader: the kernel dropped an opening, or an unrelated program opened the file.
_MOST_LATE, _FAR_BEHIND, _FEWEST_LATE = 64, 4096, 4


class OpenWatchpoints:
    """Wires on pieces by their number. Times in seconds.

    An unrelated program that opens a file of the order moves the place by a wire or two. To move it further, it must
    open most of the next files.
    """

    def __init__(self) -> None:
        self._wires: list[int] = []  # beyond ``passed``, in ascending order
        self._tripped: set[int] = set()
        self._before: deque[bool] = deque([True] * (_LAST - 1), maxlen=_LAST - 1)
        self._late: deque[int] = deque(maxlen=_MOST_LATE)  # that were passed and not tripped, in ascending order
        self.passed: int | None = None  # the number of the last piece that readers were seen to have opened
        self.pace = 0.0  # pieces a second; 0: not known
        self._looked = self._moved = 0.0  # when it was looked last, and when readers had moved on then
        self._mark: tuple[float, int] | None = None

    def lay(self, number: int) -> None:
        """Note that a watch reports the opening of a piece."""
        if number > (self.passed or -1) and not self.has(number):
            insort(self._wires, number)

    def has(self, number: int) -> bool:
        """Return True if a piece has a wire."""
        at = bisect_left(self._wires, number)
        return at < len(self._wires) and self._wires[at] == number

    def beyond(self, number: int) -> list[int]:
        """Return the wires from a piece on."""
        return self._wires[bisect_left(self._wires, number) :]

    def take_up(self, begin: int, end: int) -> list[int]:
        """Remove the wires from one piece to before another, and return them."""
        first, last = bisect_left(self._wires, begin), bisect_left(self._wires, end)
        found = self._wires[first:last]
        del self._wires[first:last]
        self._tripped.difference_update(found)
        return found

    def place(self, now: float) -> float | None:
        """Return how many pieces readers have passed. None: the wires do not show it."""
        if self.passed is None or not (self._wires or now - self._moved < _TRUST):
            return None
        since = self._looked if self._wires else self._moved
        return self.passed + 1 + self.pace * min(max(0.0, now - since), _TRUST)

    @property
    def read_beyond(self) -> int:
        """Return about how many pieces beyond ``passed`` some of several loaders opened."""
        return STRIDE * len(self._tripped)

    @property
    def done(self) -> int | None:
        """Return how many pieces all readers have passed, including the slowest loader; None: no opening was seen.

        With four loaders, the one with the fourth batch starts when the first three batches were read, if a step of
        computing separates batches.
        """
        if self.passed is None:
            return None
        return self._late[0] if len(self._late) >= _FEWEST_LATE else self.passed + 1

    def tripped(self, numbers: Collection[int], now: float) -> None:
        """Record the wires that were tripped since the last call; possibly none."""
        for number in numbers:
            if self.has(number):
                self._tripped.add(number)
            elif number in self._late:
                self._late.remove(number)
        reached = self._reached() if numbers else 0
        if reached:
            self.passed, self._moved = self._wires[reached - 1], now
            self._leave(reached)
        self._looked = now
        if self.passed is not None:
            self._measure(now, self.passed)

    def skip(self, number: int) -> None:
        """Note that readers reach this piece: the pieces before it count as open, seen or not."""
        self._leave(bisect_left(self._wires, number))

    def _leave(self, count: int) -> None:
        """Forget the first wires."""
        for number in self._wires[:count]:
            tripped = number in self._tripped
            self._before.append(tripped)
            self._tripped.discard(number)
            if not tripped:
                self._late.append(number)
        del self._wires[:count]
        while self._late and self.passed is not None and self._late[0] < self.passed - _FAR_BEHIND:
            self._late.popleft()

    def _reached(self) -> int:
        """Return how many wires readers have passed."""
        last, found = deque(self._before, maxlen=_LAST), 0
        for place, number in enumerate(self._wires[:_LOOKED_AT], 1):
            last.append(number in self._tripped)
            if last[-1] and sum(last) >= _ENOUGH:
                found = place
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

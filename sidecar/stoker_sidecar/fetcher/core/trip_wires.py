"""Where readers are in a known order, by single files of it whose opening the kernel tells. Pure."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection

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
# Wires that readers went past without an opening are waited for: so many, and until they are so many pieces behind.
# Fewer than this are no loader's: an opening that was not told, or a stranger's before ours.
_MOST_LATE, _FAR_BEHIND, _FEWEST_LATE = 64, 4096, 4


class TripWires:
    """Wires on pieces by their number. Times in seconds.

    Strangers who open a file of the order now and then move the place by a wire or two: they would have to open most of
    those that come next.
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
        """Take note that a piece's opening will be told."""
        if number > (self.passed or -1) and not self.has(number):
            insort(self._wires, number)

    def has(self, number: int) -> bool:
        """Tell whether there is a wire on a piece."""
        at = bisect_left(self._wires, number)
        return at < len(self._wires) and self._wires[at] == number

    def beyond(self, number: int) -> list[int]:
        """Return the wires from a piece on."""
        return self._wires[bisect_left(self._wires, number) :]

    def take_up(self, begin: int, end: int) -> list[int]:
        """Take the wires up that lie from one piece to before another, and return them."""
        first, last = bisect_left(self._wires, begin), bisect_left(self._wires, end)
        found = self._wires[first:last]
        del self._wires[first:last]
        self._tripped.difference_update(found)
        return found

    def place(self, now: float) -> float | None:
        """Return how many pieces readers have gone past; None: it cannot be told by wires."""
        if self.passed is None or not (self._wires or now - self._moved < _TRUST):
            return None
        since = self._looked if self._wires else self._moved
        return self.passed + 1 + self.pace * min(max(0.0, now - since), _TRUST)

    @property
    def read_beyond(self) -> int:
        """Return about how many pieces beyond ``passed`` were opened, by some of several loaders."""
        return STRIDE * len(self._tripped)

    @property
    def done(self) -> int | None:
        """Return how many pieces all readers have gone past, the last of several loaders too; None: nothing was seen.

        A loader that has the last of four batches begins it when the other three were read, where a step of computing
        comes between batches.
        """
        if self.passed is None:
            return None
        return self._late[0] if len(self._late) >= _FEWEST_LATE else self.passed + 1

    def tripped(self, numbers: Collection[int], now: float) -> None:
        """Take the wires that were tripped since the last call, which may be none."""
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
        """Take note that readers come to this piece: what lies before they have opened, seen or not."""
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
        """Return how many wires readers have gone past."""
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

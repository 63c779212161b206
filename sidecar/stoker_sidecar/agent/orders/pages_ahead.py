"""Sends the fetcher the next pieces of a known order of a complete version, so that it loads them into memory."""

import time
from collections.abc import Awaitable, Callable

from stoker_orders.following import OrderFollower, OrderState
from stoker_orders.job_order import EpochOrder
from stoker_orders.reading_place import ReadingPlace
from stoker_sidecar.agent.orders.epoch_orders import EpochOrders
from stoker_sidecar.agent.orders.order_stream import OrderStream
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.fetcher_hints import MOST_UPCOMING, PageWindow
from stoker_sidecar.wire.fetcher_protocol import Failed, ReaderPosition, Reply

# Least number of looks at readers per decision, and batches of all loaders that a decision spans.
_LEAST_LOOKS, _STRETCHES = 8, 2
# Least seconds between two looks: a reply right after another has no new information.
_APART = 0.2
# Share of looks without progress: from the first on, readers rest; up to the second, they are busy. Between: unchanged.
_RESTING, _BUSY = 0.6, 0.2
# Consecutive busy decisions that end resting: when an epoch begins, all loaders read at once, two batches each.
_BUSY_TIMES = 4


class BatchRests:
    """Detects how the loaders of one order read. ``stretch``: samples of one batch of each loader. Times in seconds.

    If a training waits for data, all its loaders read a batch each, all the time. If it computes longer than they read,
    one loader at a time reads a batch, and then all rest.
    """

    def __init__(self, stretch: int) -> None:
        self._stretch = stretch
        self._begin: float | None = None
        self._last = self._looked = 0.0
        self._looks = self._still = self._busy = 0
        self.resting = False

    def saw(self, now: float, step: float) -> bool:
        """Take a look that found readers at ``step``. Return True if ``resting`` changed."""
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
        """Take the share of looks without progress. Return True if ``resting`` changed."""
        before, self._busy = self.resting, self._busy + 1 if still <= _BUSY else 0
        self.resting = still >= _RESTING or (self.resting and self._busy < _BUSY_TIMES)
        return self.resting is not before

    def _begin_at(self, step: float) -> None:
        self._begin = self._last = step
        self._looks = self._still = 0


TellPages = Callable[[PageWindow], Awaitable[Reply]]
# Window ahead of readers: seconds at their pace, least pieces, most pieces. The fetcher limits the bytes.
_AHEAD_SECONDS, _LEAST_AHEAD, _MOST_AHEAD = 10.0, 8_192, 131_072
# Seconds for which a position from the fetcher takes precedence over observed samples, which arrive later.
_FRESH = 2.0
# Largest age in seconds of an arriving sample: the observer reports four times a second.
_LATE = 0.75
# Seconds without progress after which the fetcher is asked less often for positions, and the interval from then on.
_QUIET, _SELDOM = 60.0, 5.0


class PagesAhead:
    """Sends windows of one group's next pieces. Call ``work`` repeatedly, and ``end`` when done. Not thread-safe.

    ``tell`` sends a message to the fetcher and raises FetcherUnavailable. ``epochs``: source of orders. ``clock``:
    monotonic seconds.
    """

    def __init__(
        self,
        tell: TellPages,
        version: VersionKey,
        epochs: EpochOrders,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._epochs = epochs
        self._version = version
        self._clock = clock
        self._place: ReadingPlace | None = None
        self._steps = 0  # steps of an epoch when the stream began
        self._found = 0  # the follower's ``found_again`` at the last call
        self._stream: OrderStream | None = None
        self._rests: BatchRests | None = None
        self._reader = ""
        self._alone = False
        self._passed: tuple[int, float] | None = None  # the last piece that the fetcher saw opened, and when
        self._told: tuple[float, float] | None = None
        self._asked = self._moved = clock()  # when the last message went out, and when it last had news

    @property
    def told(self) -> bool:
        """Whether the fetcher has a window."""
        return self._told is not None

    def saw(self, follower: OrderFollower, when: float) -> None:
        """Take the follower's position, from reads observed until ``when``."""
        if follower.epoch is None or follower.is_searching:
            return
        if self._found != follower.found_again:
            self._found = follower.found_again
            if not self._is_there(follower, when):
                self._place = self._stream = self._passed = None
        if self._stream is not None and self._counts_otherwise(follower):
            self._place = self._stream = self._passed = None
        self._place = self._place or self._begin(follower)
        if self._passed is not None and when - self._passed[1] < _FRESH:
            return
        if self._place.saw(when, self._step(follower)):
            self._stream = None  # begin again where the readers are

    def _is_there(self, follower: OrderFollower, when: float) -> bool:
        """Return True if the follower's new position is close to the one that the fetcher just reported."""
        if self._place is None or self._passed is None or when - self._passed[1] >= _FRESH:
            return False
        return abs(self._step(follower) - self._place.at(when)) <= self._loose(follower) + self._place.pace

    async def work(self, follower: OrderFollower, reader: str, *, alone: bool = False) -> bool:
        """Send the next pieces. Return True if more are due now. Raises FetcherUnavailable.

        ``alone``: no other pod has the version mounted.
        """
        if follower.epoch is None or follower.is_searching or not follower.loading.steps:
            return False
        if reader != self._reader:
            await self.end()
            self._reader, self._rests = reader, None
        # If the order is not confirmed, past pieces may still be unread. A few samples cannot confirm an epoch of a few
        # batches; the files that the fetcher watches can.
        self._alone = alone and (follower.state is OrderState.KNOWN or self._passed is not None)
        try:
            return await self._work(follower)
        except FetcherUnavailable:
            self._stream = self._told = None
            raise

    def begin_anew(self) -> None:
        """Forget the position: the job restarted elsewhere, and the next calls pass another follower."""
        self._place = self._stream = self._passed = None
        self._found = 0

    async def end(self) -> None:
        """Clear the window in the fetcher. Raises FetcherUnavailable."""
        self._stream = None
        if self._told is not None:
            self._told = None
            await self._tell(PageWindow(*self._version, self._reader, ended=True))

    async def _work(self, follower: OrderFollower) -> bool:
        place = self._place or self._begin(follower)
        at, seen = place.at(self._clock()), place.seen
        stream = self._stream
        if stream is None or seen > stream.step:
            # Do not begin in the previous epoch: its order may be dropped, and the window would wait for it.
            steps = follower.loading.steps
            begin = max(int(seen) // steps * steps, int(seen) - follower.loading.stretch)
            self._passed, self._steps = None, steps
            resting = self._rests is not None and self._rests.resting
            # If a job resumes within an epoch, its loaders' batches begin at that step.
            goes_on = not follower.reads and follower.step > 0
            stream = OrderStream(follower.order, follower.loading, begin, in_batches=resting or goes_on)
            self._stream = stream
        if stream.wanted is not None:
            epoch = await self._order_of(follower, stream.wanted)
            if epoch is not None:
                stream.give(epoch)
        here = max(1, len(follower.loading.here))
        # If the order is not confirmed, send the least window only.
        pace = place.pace if follower.state is OrderState.KNOWN else 0.0
        ahead = min(_MOST_AHEAD, max(_LEAST_AHEAD, _AHEAD_SECONDS * pace * here)) / here
        first, pieces = stream.number, b""
        if stream.step < at + ahead:
            pieces = stream.take(MOST_UPCOMING)
        now = self._clock()
        if pieces or self._told != (seen, at):
            self._moved = now
        # The reply contains the readers' position, so send a message even without new pieces.
        if now - self._moved <= _QUIET or now - self._asked >= _SELDOM:
            self._asked = now
            stream.forget(seen)
            await self._say(follower, stream, place, first, pieces, (at, pace))
        return bool(pieces) and self._stream is stream and stream.step < at + ahead and not stream.ended

    async def _say(
        self,
        follower: OrderFollower,
        stream: OrderStream,
        place: ReadingPlace,
        first: int,
        pieces: bytes,
        reckoned: tuple[float, float],
    ) -> None:
        seen, (at, pace) = place.seen, reckoned
        passed = [stream.number_at(step) for step in (seen, at, at + pace)]
        message = PageWindow(
            *self._version,
            self._reader,
            first,
            passed[0],
            passed[1],
            max(0.0, passed[2] - passed[1]),
            pieces,
            self._alone,
        )
        reply = await self._tell(message)
        if isinstance(reply, Failed):
            self._stream = self._told = None  # the version is not open
        else:
            self._told = seen, at
            if isinstance(reply, ReaderPosition) and self._stream is stream:
                self._take(follower, place, reply.number)

    def _take(self, follower: OrderFollower, place: ReadingPlace, number: int | None) -> None:
        """Take the readers' position from the fetcher, which watches files and knows it to a few pieces."""
        step = self._stream.step_at(number) if number is not None and self._stream is not None else None
        if number is None or step is None:
            return
        self._rests = self._rests or BatchRests(follower.loading.stretch)
        if self._rests.saw(self._clock(), step):
            self._stream = None  # begin again, in the order in which loaders read now
        if self._passed is not None and self._passed[0] == number:
            return
        self._passed, self._place = (number, self._clock()), place
        place.saw(self._clock(), step)
        follower.reckon(step, place.pace * _LATE)

    async def _order_of(self, follower: OrderFollower, number: int) -> EpochOrder | None:
        """Return the order of an epoch, from the follower if it has it. None: a plug-in call is pending."""
        for known in follower.known:
            if known.number == number:
                return known
        return await self._epochs.epoch(follower.order, number)

    def _counts_otherwise(self, follower: OrderFollower) -> bool:
        """Return True if the epoch length changed so much that the stream's steps over all epochs are wrong."""
        return (follower.epoch or 0) * abs(follower.loading.steps - self._steps) > self._loose(follower)

    def _begin(self, follower: OrderFollower) -> ReadingPlace:
        return ReadingPlace(self._loose(follower), self._step(follower))

    @staticmethod
    def _step(follower: OrderFollower) -> float:
        """Return the least certain step of readers, over all epochs; their start if no read was observed."""
        loading = follower.loading
        within = loading.surely_read(follower.step) if follower.reads else follower.step
        return float((follower.epoch or 0) * loading.steps + within)

    @staticmethod
    def _loose(follower: OrderFollower) -> float:
        return float(follower.loading.slack + follower.order.map.spread)

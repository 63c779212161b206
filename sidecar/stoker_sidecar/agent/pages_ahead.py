"""Tells the fetcher what comes next in a known order of a version that is whole, so that it is in memory by then."""

import time
from collections.abc import Awaitable, Callable

from stoker_orders.following import OrderFollower, OrderState
from stoker_orders.job_order import EpochOrder
from stoker_orders.reading_place import ReadingPlace
from stoker_sidecar.agent.core.batch_rests import BatchRests
from stoker_sidecar.agent.core.order_stream import OrderStream
from stoker_sidecar.agent.epoch_orders import EpochOrders
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.wire.fetcher_protocol import MOST_UPCOMING, Failed, Passed, Reply, Upcoming

TellPages = Callable[[Upcoming], Awaitable[Reply]]
# Told ahead of readers: so many seconds of their pace, and pieces at least and at most. The fetcher bounds the bytes.
_AHEAD_SECONDS, _LEAST_AHEAD, _MOST_AHEAD = 10.0, 8_192, 131_072
# Seconds for which readers that the fetcher saw move on are not looked for by samples: these are older when they come.
_FRESH = 2.0
# Seconds that a sample may be old when it comes: the observer reports four times a second, and looks before that.
_LATE = 0.75
# Seconds after which the fetcher is asked seldom where readers are that have not moved since, and how seldom.
_QUIET, _SELDOM = 60.0, 5.0


class PagesAhead:
    """One group's pieces that come next, told again and again; not for threads. ``work`` it, ``end`` it at last.

    ``tell`` hands a message to the fetcher, and raises FetcherUnavailable. ``epochs``: whence orders come. ``clock``:
    the monotonic one.
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
        self._steps = 0  # of an epoch, where the stream began
        self._found = 0  # times that the place was found anew, when it was looked at last
        self._stream: OrderStream | None = None
        self._rests: BatchRests | None = None
        self._reader = ""
        self._alone = False
        self._passed: tuple[int, float] | None = None  # the last piece that the fetcher saw opened, and when
        self._told: tuple[float, float] | None = None
        self._asked = self._moved = clock()  # when it was told last, and when there was something new to tell

    @property
    def told(self) -> bool:
        """Whether the fetcher knows what comes."""
        return self._told is not None

    def saw(self, follower: OrderFollower, when: float) -> None:
        """Take note of where a follower stands, by reads that were seen until then."""
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
        """Tell whether a place that was found is about where the fetcher has just seen readers."""
        if self._place is None or self._passed is None or when - self._passed[1] >= _FRESH:
            return False
        return abs(self._step(follower) - self._place.at(when)) <= self._loose(follower) + self._place.pace

    async def work(self, follower: OrderFollower, reader: str, *, alone: bool = False) -> bool:
        """Tell what is next; returns whether there is more to tell at once. Raises FetcherUnavailable.

        ``alone``: nobody else has the version mounted.
        """
        if follower.epoch is None or follower.is_searching or not follower.loading.steps:
            return False
        if reader != self._reader:
            await self.end()
            self._reader, self._rests = reader, None
        # Where readers are not known to read as was said, nothing is known to have been read, either. Few samples tell
        # nothing of an epoch of some batches; the files that the fetcher watches do.
        self._alone = alone and (follower.state is OrderState.KNOWN or self._passed is not None)
        try:
            return await self._work(follower)
        except FetcherUnavailable:
            self._stream = self._told = None
            raise

    def begin_anew(self) -> None:
        """Take note that another follower is worked with from now on, since the job has begun elsewhere."""
        self._place = self._stream = self._passed = None
        self._found = 0

    async def end(self) -> None:
        """Take everything back. Raises FetcherUnavailable."""
        self._stream = None
        if self._told is not None:
            self._told = None
            await self._tell(Upcoming(*self._version, self._reader, ended=True))

    async def _work(self, follower: OrderFollower) -> bool:
        place = self._place or self._begin(follower)
        at, seen = place.at(self._clock()), place.seen
        stream = self._stream
        if stream is None or seen > stream.step:
            # Not in the epoch before, whose order may be kept no more: nothing would be told until it is computed.
            steps = follower.loading.steps
            begin = max(int(seen) // steps * steps, int(seen) - follower.loading.stretch)
            self._passed, self._steps = None, steps
            resting = self._rests is not None and self._rests.resting
            # Of a job that goes on within an epoch, loaders' batches begin where it does.
            goes_on = not follower.reads and follower.step > 0
            stream = OrderStream(follower.order, follower.loading, begin, in_batches=resting or goes_on)
            self._stream = stream
        if stream.wanted is not None:
            epoch = await self._order_of(follower, stream.wanted)
            if epoch is not None:
                stream.give(epoch)
        here = max(1, len(follower.loading.here))
        # Of readers that are not known to read as was said, the window that is told at least is all.
        pace = place.pace if follower.state is OrderState.KNOWN else 0.0
        ahead = min(_MOST_AHEAD, max(_LEAST_AHEAD, _AHEAD_SECONDS * pace * here)) / here
        first, pieces = stream.number, b""
        if stream.step < at + ahead:
            pieces = stream.take(MOST_UPCOMING)
        now = self._clock()
        if pieces or self._told != (seen, at):
            self._moved = now
        # What is answered says where readers are, so it is worth asking with nothing to tell.
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
        message = Upcoming(
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
            self._stream = self._told = None  # it is not open yet
        else:
            self._told = seen, at
            if isinstance(reply, Passed) and self._stream is stream:
                self._take(follower, place, reply.number)

    def _take(self, follower: OrderFollower, place: ReadingPlace, number: int | None) -> None:
        """Take where the fetcher saw readers, which it knows to some pieces: it has files watched."""
        step = self._stream.step_at(number) if number is not None and self._stream is not None else None
        if number is None or step is None:
            return
        self._rests = self._rests or BatchRests(follower.loading.stretch)
        if self._rests.saw(self._clock(), step):
            self._stream = None  # told anew, in the order in which they read
        if self._passed is not None and self._passed[0] == number:
            return
        self._passed, self._place = (number, self._clock()), place
        place.saw(self._clock(), step)
        follower.reckon(step, place.pace * _LATE)

    async def _order_of(self, follower: OrderFollower, number: int) -> EpochOrder | None:
        """Return the order of an epoch, which the follower may have; None: it is being asked for."""
        for known in follower.known:
            if known.number == number:
                return known
        return await self._epochs.epoch(follower.order, number)

    def _counts_otherwise(self, follower: OrderFollower) -> bool:
        """Tell whether steps over all epochs are others than where the stream began: epochs may differ in length."""
        return (follower.epoch or 0) * abs(follower.loading.steps - self._steps) > self._loose(follower)

    def _begin(self, follower: OrderFollower) -> ReadingPlace:
        return ReadingPlace(self._loose(follower), self._step(follower))

    @staticmethod
    def _step(follower: OrderFollower) -> float:
        """Return how far readers are for sure, in steps over all epochs: before any is seen, where they begin."""
        loading = follower.loading
        within = loading.surely_read(follower.step) if follower.reads else follower.step
        return float((follower.epoch or 0) * loading.steps + within)

    @staticmethod
    def _loose(follower: OrderFollower) -> float:
        return float(follower.loading.slack + follower.order.map.spread)

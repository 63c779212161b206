"""One pass of warming over a version.

Starts fetches in the order that it is given, as many at a time as the node gives.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Protocol

from stoker_sidecar.errors import CacheDiskFailed, DiskFull, InternalError, NotWanted, SidecarError
from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.choosing import left_to_warm
from stoker_sidecar.fetcher.core.lanes import Lane, WarmShare, WarmSlots
from stoker_sidecar.fetcher.core.rates import TokenBucket
from stoker_sidecar.fetcher.core.runs import MOST, run_length
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.core.weighted_turns import TurnClass, WeightedTurns
from stoker_sidecar.fetcher.download.chosen_order import ChosenOrder
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.parts import CHUNK, chunk_count, chunk_span, is_whole
from stoker_sidecar.fetcher.download.sighted_order import SightedOrder
from stoker_sidecar.version.manifest import Entry


class AccessOrder(Protocol):
    """An order in which a pass of warming fetches files; iterated once a pass.

    Each file is asked for when it is about to be fetched, so that those that came meanwhile are left out.

    An order that a training job is known to read in would be one more.
    """

    def __iter__(self) -> Iterator[Entry]:
        """Files that are still missing."""
        ...


class CanonicalOrder:
    """As the manifest has them: folder by folder, by name."""

    def __init__(self, version: CachedVersion) -> None:
        self._version = version

    def __iter__(self) -> Iterator[Entry]:
        """Rows are read a page at a time: a query for each file would cost ten times as much."""
        ino = self._version.missing()
        while ino > 0:
            page = self._version.manifest.page(ino - 1)
            for entry in page:
                if self._version.is_missing(entry.ino):
                    yield entry
            ino = self._version.missing(page[-1].ino)


class RankedOrder:
    """As the manifest has them, but all files of a lower rank before those of a higher one.

    Within a rank files take turns by their weights; a turn is a file, and a large one counts for its requests.
    """

    def __init__(self, version: CachedVersion, tuning: VersionTuning) -> None:
        self._version = version
        self._tuning = tuning

    def __iter__(self) -> Iterator[Entry]:
        """Each rank and weight is a walk over the version; files of others are passed over by the hundred thousand."""
        numbers = self._tuning.numbered(self._version.manifest.last_ino)
        for _, alike in groupby(enumerate(self._tuning.turns), key=lambda each: each[1][0]):
            walks = {
                TurnClass(weight, number): iter(MarkedOrder(self._version, _equal_to(number, numbers)))
                for number, (_, weight) in alike
            }
            turns = WeightedTurns()
            while walks:
                one = turns.in_order(walks)[0]
                entry = next(walks[one], None)
                if entry is None:
                    del walks[one]
                    continue
                turns.take(one, max(1, chunk_count(entry.size)))
                yield entry


class MarkedOrder:
    """As the manifest has them, and of them only the files that have a 1 in ``marks``, a byte an inode."""

    def __init__(self, version: CachedVersion, marks: bytes) -> None:
        self._version = version
        self._marks = marks

    def __iter__(self) -> Iterator[Entry]:
        """Files that are not marked are passed over by the hundred thousand."""
        ino = self._next(0)
        while ino > 0:
            page = self._version.manifest.page_with(ino)
            for entry in page:
                if entry.ino >= ino and self._marks[entry.ino] and self._version.is_missing(entry.ino):
                    yield entry
            ino = self._next(page[-1].ino)

    def _next(self, after: int) -> int:
        """Return the next inode that is marked and missing; -1 when there is none."""
        while (missing := self._version.missing(after)) > 0:
            marked = self._marks.find(1, missing)
            if marked in (missing, -1):
                return marked
            after = marked - 1
        return -1


def _equal_to(number: int, numbers: bytes) -> bytes:
    """Return a 1 for each byte that is this number, and a 0 for the others."""
    return numbers.translate(bytes(int(one == number) for one in range(256)))


def warm_order(version: CachedVersion, tuning: VersionTuning, *, eager: bool, in_use: bool) -> AccessOrder | None:
    """Return the order in which a version is warmed up; None: it is not.

    ``eager``: all of it is, or what of it is chosen; else only what comes unasked, and that for those who have it
    mounted (``in_use``).
    """
    if eager and version.chosen.selection is not None:
        return ChosenOrder(version, version.chosen.selection)
    if eager:
        return CanonicalOrder(version) if len(tuning.turns) == 1 else RankedOrder(version, tuning)
    return MarkedOrder(version, tuning.wanted_unasked(version.manifest.last_ino)) if in_use and tuning.unasked else None


# Seconds until objects that changed or are gone are asked for again (someone may put them back; a new listing is what
# really helps); what earlier failures left is taken up at once.
RETRY_CHANGED = 600.0
RETRY_LEFT = 0.01
# Failures in a row after which the source, not an object, is taken to be at fault.
_ROW = 8
# Files that are looked at without a pause, when most of them do not fit: a millisecond of the event loop.
_BREATH = 128


@dataclass
class WarmLimits:
    """What holds a pass of the dataset ``uid`` back.

    Its slots, asked before each request, and ``bucket``, None for no limit.

    Once ``stop`` is set the pass leaves off soon.
    """

    uid: str
    slots: WarmSlots
    bucket: TokenBucket | None
    stop: asyncio.Event
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]


@dataclass
class WarmPass:
    """One pass over the missing files of a version; ``run`` once.

    ``share.failing`` at the start: the last pass was stopped by failures, so the first one stops this too.
    """

    fetching: Fetching
    order: AccessOrder
    limits: WarmLimits
    share: WarmShare
    error: SidecarError | None = None  # of the last fetch that failed
    fatal: bool = False  # the source or the disk is at fault: no use to go on now
    _row: int = 0
    _in_flight: int = 0
    _landed: asyncio.Event = field(default_factory=asyncio.Event)
    # Of neighbouring chunks, with the inode of each; one piece of each is in flight.
    _runs: "dict[asyncio.Task[None], int]" = field(default_factory=dict)
    _upcoming: SightedOrder = field(init=False)
    _copies: int = field(init=False)

    def __post_init__(self) -> None:
        self._copies = len(self.fetching.version.packed)
        self._upcoming = self._sighted(iter(()))

    @property
    def made_copies(self) -> bool:
        """Whether there are more compressed copies than when it began."""
        return len(self.fetching.version.packed) > self._copies

    async def run(self) -> None:
        """Fetch. Ends when every missing file was started and has landed, on ``stop``, or when ``fatal``."""
        self._upcoming = self._sighted(iter(self.order))
        try:
            await self._start_upcoming()
            await self._until(self._idle)
        finally:
            await self._end_runs()

    async def _start_upcoming(self) -> None:
        for seen, entry in enumerate(self._upcoming):
            if self._over():
                break
            if seen % _BREATH == _BREATH - 1:
                await asyncio.sleep(0)
            # A small file is asked about where it starts; a large one here, once for all of its chunks.
            if is_whole(entry.size) or self.fetching.admits(entry):
                await self._start_all(entry)

    def until_next(self, *, eager: bool) -> float | None:
        """Return the seconds until the rest of the version is tried; None: there is none that can be had.

        Raises the error that stopped the pass. What was to come unasked and failed is fetched when it is read.
        """
        if self.error is not None and (self.fatal or self.error.temporary):
            raise self.error
        if not eager:
            return None if next(iter(self.order), None) is None else RETRY_LEFT
        if self.error is not None:
            return RETRY_CHANGED
        version = self.fetching.version
        # By failures that have passed.
        left = left_to_warm(version, State.MISSING) or left_to_warm(version, State.FAILED)
        return RETRY_LEFT if left else None

    def _sighted(self, order: Iterator[Entry]) -> SightedOrder:
        def alike(one: Entry, other: Entry) -> bool:
            return tuning.of(one.ino).warm_rank == tuning.of(other.ino).warm_rank

        tuning = self.fetching.tuning
        return SightedOrder(order, self.fetching.version.is_missing, alike)

    def _idle(self) -> bool:
        return self._in_flight == 0 and not self._runs

    async def _start_all(self, entry: Entry) -> None:
        self.share.bandwidth = self.fetching.tuning.of(entry.ino).bandwidth
        if is_whole(entry.size):
            await self._until(lambda: self._over() or self._in_flight < self._slots())
            if not self._over():
                await self._start(entry, 0)
            return
        chunk, chunks = 0, chunk_count(entry.size)
        while chunk < chunks:
            await self._until(lambda: self._over() or self._in_flight < self._streams())
            if self._over():
                return
            end = min(chunks, chunk + self._run_length(entry, chunks - chunk))
            # The first of them here, so that the next file that asks for room finds this one's reserved.
            first = await self._started(entry, chunk, end - chunk)
            if first is not None or end - chunk > 1:
                self._begin_run(entry, range(chunk, end), first)
            chunk = end

    def _slots(self) -> int:
        return self.limits.slots.of(self.limits.uid)

    def _streams(self) -> int:
        """Return how many chunks of large files may be in flight; more would wait for each other's bytes."""
        most = self.fetching.context.settings.pipeline.bounds.background_bytes // CHUNK
        return max(1, min(self._slots(), most))

    def _run_length(self, entry: Entry, chunks: int) -> int:
        """Return how many chunks are asked for at once, where so many of a file are left.

        One under a limit of bytes a second: what waits in buffers meanwhile would be beyond it.
        """
        if self.limits.bucket is not None or self.share.bandwidth < 1.0:
            return 1
        streams = self._streams()
        enough = streams * MOST
        return run_length(chunks + self._upcoming.pieces_left(entry, enough - chunks), streams)

    def _begin_run(self, entry: Entry, chunks: range, first: "asyncio.Task[None] | None") -> None:
        self._in_flight += 1
        run = asyncio.create_task(self._run(entry, chunks, first))
        self._runs[run] = entry.ino
        run.add_done_callback(self._ended)

    def _ended(self, run: "asyncio.Task[None]") -> None:
        ino = self._runs.pop(run)
        self._in_flight -= 1
        self._landed.set()
        if not run.cancelled() and (error := run.exception()) is not None:
            self._failed(ino, error)

    async def _run(self, entry: Entry, chunks: range, piece: "asyncio.Task[None] | None") -> None:
        """Fetch neighbouring chunks one after the other, so that they may come by one request; the first has begun."""
        for chunk in chunks:
            if chunk > chunks.start:
                await self._keep_place()
                if self._over():
                    return
                piece = await self._started(entry, chunk, chunks.stop - chunk)
            if piece is not None:
                await asyncio.wait([piece])
                self._learn(entry.ino, piece)

    async def _keep_place(self) -> None:
        """Wait where fewer may be in flight than are: others of them go on meanwhile."""
        if self._in_flight > self._streams():
            self._in_flight -= 1
            try:
                await self._until(lambda: self._over() or self._in_flight < self._streams())
            finally:
                self._in_flight += 1

    async def _end_runs(self) -> None:
        """Wait for runs that are left when the pass is cancelled; what they had started goes on."""
        for run in self._runs:
            run.cancel()
        if self._runs:
            await asyncio.wait(self._runs)

    async def _start(self, entry: Entry, chunk: int) -> None:
        task = await self._started(entry, chunk, 1)
        if task is not None:
            self._in_flight += 1
            task.add_done_callback(partial(self._land, entry.ino))

    async def _started(self, entry: Entry, chunk: int, run: int) -> "asyncio.Task[None] | None":
        if self.limits.bucket is not None:
            size = entry.size if is_whole(entry.size) else chunk_span(entry.size, chunk)[1]
            await self._pause(self.limits.bucket.take(size, self.limits.clock()))
        return self.fetching.start(entry, chunk, Lane.WARM, run)

    async def _pause(self, seconds: float) -> None:
        """Sleep in short naps, so that ``stop`` is heard under a narrow limit."""
        end = self.limits.clock() + seconds
        while (left := end - self.limits.clock()) > 0 and not self._over():
            await self.limits.sleep(min(left, 1.0))

    def _land(self, ino: int, task: asyncio.Task[None]) -> None:
        self._in_flight -= 1
        self._landed.set()
        self._learn(ino, task)

    def _learn(self, ino: int, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self.fatal = True
        elif (error := task.exception()) is None:
            self.share.failing, self._row = False, 0
        elif not isinstance(error, NotWanted):  # readahead that was on its way to it: the next pass fetches it
            self._failed(ino, error)

    def _failed(self, ino: int, error: BaseException) -> None:
        failure = error if isinstance(error, SidecarError) else InternalError(f"a fetch failed: {error!r}")
        if self.error is None or failure.temporary:  # one that time heals decides when the next pass is
            self.error = failure
        if isinstance(error, DiskFull | CacheDiskFailed):
            self.fatal = True
            return
        if self.fetching.version.states[ino] == State.MISSING:
            self.fetching.version.states[ino] = State.FAILED
        self._row += 1
        self.fatal = self.fatal or self.share.failing or self._row >= _ROW

    def _over(self) -> bool:
        return self.fatal or self.limits.stop.is_set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._landed.clear()
            await self._landed.wait()

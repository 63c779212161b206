"""One pass of warming over a version.

Starts fetches in the given order, up to the node's limit of requests.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import Protocol

from stoker_sidecar.errors import (
    AccessDenied,
    CacheDiskFailed,
    DeniedEarlier,
    DiskFull,
    InternalError,
    NotWanted,
    SidecarError,
)
from stoker_sidecar.fetcher.download.core.refusals import is_of_an_object, is_unreadable
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.choosing import ChosenOrder, left_to_warm
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.parts import CHUNK, chunk_count, chunk_span, is_whole
from stoker_sidecar.fetcher.ondisk.version_tuning import VersionTuning
from stoker_sidecar.fetcher.sources.core.bandwidth import TokenBucket
from stoker_sidecar.fetcher.sources.core.lanes import Lane, WarmShare, WarmSlots
from stoker_sidecar.fetcher.sources.core.waiting_line import TurnClass, WeightedTurns
from stoker_sidecar.version.manifest import Entry


class AccessOrder(Protocol):
    """An order in which a pass of warming fetches files; iterated once a pass.

    Each file is taken just before its fetch, so that files that have arrived are skipped.

    A known read order of a training job would be another implementation.
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
        ino = self._version.states.missing()
        while ino > 0:
            page = self._version.manifest.page(ino - 1)
            for entry in page:
                if self._version.states.is_missing(entry.ino):
                    yield entry
            ino = self._version.states.missing(page[-1].ino)


class RankedOrder:
    """The order of the manifest, with all files of a lower rank before those of a higher one.

    Within a rank, files take turns by weight. A turn is a file, and a large file counts for its requests.
    """

    def __init__(self, version: CachedVersion, tuning: VersionTuning) -> None:
        self._version = version
        self._tuning = tuning

    def __iter__(self) -> Iterator[Entry]:
        """Each rank and weight is a walk over the version.

        A walk skips files of a different rank by the hundred thousand.
        """
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
                if entry.ino >= ino and self._marks[entry.ino] and self._version.states.is_missing(entry.ino):
                    yield entry
            ino = self._next(page[-1].ino)

    def _next(self, after: int) -> int:
        """Return the next inode that is marked and missing; -1 if none is left."""
        while (missing := self._version.states.missing(after)) > 0:
            marked = self._marks.find(1, missing)
            if marked in (missing, -1):
                return marked
            after = marked - 1
        return -1


def _equal_to(number: int, numbers: bytes) -> bytes:
    """Return a 1 for each byte that equals this number, and a 0 for each other byte."""
    return numbers.translate(bytes(int(one == number) for one in range(256)))


def warm_order(version: CachedVersion, tuning: VersionTuning, *, eager: bool, in_use: bool) -> AccessOrder | None:
    """Return the order in which a version is warmed up; None: it is not.

    ``eager``: the whole version, or its chosen files. Otherwise only the files that a rule fetches without a read, and
    only while the version is mounted (``in_use``).
    """
    if eager and version.chosen.selection is not None:
        return ChosenOrder(version, version.chosen.selection)
    if eager:
        return CanonicalOrder(version) if len(tuning.turns) == 1 else RankedOrder(version, tuning)
    return MarkedOrder(version, tuning.wanted_unasked(version.manifest.last_ino)) if in_use and tuning.unasked else None


# Seconds until changed or deleted objects are requested again. A user may restore them, and a new listing fixes the
# rest. Leftovers of earlier failures are retried at once.
RETRY_CHANGED = 600.0
RETRY_LEFT = 0.01
# Failures in a row after which the source, not an object, is taken to be at fault.
_ROW = 8
# Limit of refused objects while no object was readable.
_MOST_REFUSED = 1000
_TURN = 0.1  # seconds over which passes spread that wait for the same turn
# Files anywhere in the version that a pass tries at a source that denies one object after the other.
_PROBES, _SAMPLE = 8, 1000  # and files of which one is drawn, if the version has an order
# Files that are looked at without a pause, when most of them do not fit: a millisecond of the event loop.
_BREATH = 128


@dataclass
class WarmLimits:
    """Limits of a warming pass of the dataset ``uid``.

    Its slots, checked before each request, and ``bucket``, None for no limit.

    The pass ends soon after ``stop`` is set.
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
    fatal: bool = False  # the source or the disk fails, so the pass stops
    _denied: DeniedEarlier | None = None  # the source has no turn for its requests
    _searching: bool = False
    _skipped: bool = False  # files were not requested for that reason
    _row: int = 0
    _refused: int = 0
    _in_flight: int = 0
    _landed: asyncio.Event = field(default_factory=asyncio.Event)
    _copies: int = field(init=False)

    def __post_init__(self) -> None:
        self._copies = len(self.fetching.version.packed)

    @property
    def made_copies(self) -> bool:
        """Whether there are more compressed copies than when it began."""
        return len(self.fetching.version.packed) > self._copies

    @property
    def denied(self) -> SidecarError | None:
        """The error of a source that denies one object after the other, while the pass tries others."""
        known = self._denied or self.error
        if not self._searching or known is None:
            return None
        return AccessDenied(known.message, temporary=True)

    @property
    def unreadable(self) -> SidecarError | None:
        """The error of an unreadable object, if nothing but unreadable objects failed and some files are here."""
        if self.error is None or self.fatal or not self.fetching.version.here_files:
            return None
        return self.error if is_unreadable(self.error) else None

    async def run(self) -> None:
        """Fetch. Ends when every missing file was started and has landed, on ``stop``, or when ``fatal``."""
        await self._walk()
        while self._skipped and not self._over():
            self._skipped = False
            await self._walk()

    async def _walk(self) -> None:
        for seen, entry in enumerate(self.order):
            if self._denied is not None:
                self._searching = True
                await self._search()
                self._searching = False
            if self._over():
                break
            if seen % _BREATH == _BREATH - 1:
                await asyncio.sleep(0)
            # A small file is admitted at its start; a large one here, once for all of its chunks.
            if is_whole(entry.size) or self.fetching.admits(entry):
                await self._start_all(entry)
        await self._until(self._idle)

    async def _search(self) -> None:
        """Try files anywhere in the version, one a turn, until the source lets one in. If none is let in: ``fatal``.

        The files that follow in the order are mostly denied for the same reason.
        """
        for _ in range(_PROBES):
            await self._until(self._idle)
            wait = self._denied.retry_after if self._denied is not None else 0.0
            await self._pause(wait + _TURN * random.random())
            entry = self._any_left()
            if self._over() or entry is None:
                return
            self._denied = None
            await self._start_all(entry)
            await self._until(self._idle)
            if self._denied is None and not self.fetching.context.source.suspected:
                return
        self.fatal, self.error = True, self._denied or self.error

    def _any_left(self) -> Entry | None:
        """Return a missing file at random."""
        version = self.fetching.version
        if not isinstance(self.order, CanonicalOrder | RankedOrder):  # chosen files
            return random.choice(list(islice(self.order, _SAMPLE)) or [None])
        ino = version.states.missing(random.randrange(len(version.states)))
        ino = ino if ino > 0 else version.states.missing()
        return version.manifest.entry(ino) if ino > 0 else None

    def until_next(self, *, eager: bool) -> float | None:
        """Return the seconds until the rest of the version is tried. None: the rest cannot be fetched.

        Raises the error that stopped the pass. Files that a rule fetches without a read, and that failed, are fetched
        when they are read.
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

    def _idle(self) -> bool:
        return self._in_flight == 0

    async def _start_all(self, entry: Entry) -> None:
        self.share.bandwidth = self.fetching.tuning.of(entry.ino).bandwidth
        if is_whole(entry.size):
            await self._start(entry, 0, self._slots)
            return
        for chunk in range(chunk_count(entry.size)):
            await self._start(entry, chunk, self._streams)

    def _slots(self) -> int:
        return self.limits.slots.of(self.limits.uid)

    def _streams(self) -> int:
        """Return the limit of chunks of large files in flight. More would compete for bandwidth."""
        most = self.fetching.context.settings.pipeline.bounds.background_bytes // CHUNK
        return max(1, min(self._slots(), most))

    async def _start(self, entry: Entry, chunk: int, most: Callable[[], int]) -> None:
        """Start a piece once fewer than ``most`` are in flight, unless the pass is over."""
        await self._until(lambda: self._over() or self._in_flight < most())
        if not self._over() and (task := await self._started(entry, chunk)) is not None:
            self._in_flight += 1
            task.add_done_callback(partial(self._land, entry.ino))

    async def _started(self, entry: Entry, chunk: int) -> "asyncio.Task[None] | None":
        if self.limits.bucket is not None:
            size = entry.size if is_whole(entry.size) else chunk_span(entry.size, chunk)[1]
            await self._pause(self.limits.bucket.take(size, self.limits.clock()))
        return self.fetching.start(entry, chunk, Lane.WARM)

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
        if isinstance(error, DeniedEarlier):
            self._denied, self._skipped = error, True
            return
        failure = error if isinstance(error, SidecarError) else InternalError(f"a fetch failed: {error!r}")
        if self.error is None or failure.temporary:  # one that time heals decides when the next pass is
            self.error = failure
        if isinstance(error, DiskFull | CacheDiskFailed):
            self.fatal = True
            return
        if self.fetching.version.states[ino] == State.MISSING:
            self.fetching.version.states[ino] = State.FAILED
        if is_of_an_object(failure):
            self.share.failing, self._refused = False, self._refused + 1
            # Stop before a million requests to a source without any readable object.
            self.fatal = self.fatal or (self._refused >= _MOST_REFUSED and not self.fetching.version.here_files)
            return
        self._row += 1
        self.fatal = self.fatal or self.share.failing or self._row >= _ROW

    def _over(self) -> bool:
        return self.fatal or self.limits.stop.is_set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._landed.clear()
            await self._landed.wait()

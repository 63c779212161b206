"""Has ready what training jobs are known to read next: a window of pieces ahead of each reader, in their order.

What does not fit into the version's room is held until it is read.

Concurrency: everything runs on one event loop. Each version that a window is of has one task, which ends when nothing
more is said; it starts downloads as readers and warm-up do, so a piece is fetched once whoever wants it.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple

from stoker_sidecar.errors import NotYetConfigured, SidecarError, SourceError
from stoker_sidecar.fetcher.cached_version import State
from stoker_sidecar.fetcher.core.concurrency import AdaptiveLimit
from stoker_sidecar.fetcher.core.lanes import Lane
from stoker_sidecar.fetcher.core.next_uses import NextUses
from stoker_sidecar.fetcher.dataset import DatasetCache
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.parts import CHUNK, chunk_count, is_whole
from stoker_sidecar.fetcher.download.policy import DownloadKey
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import UNREAD_BYTES, WHOLE_FILE, Ahead

_log = logging.getLogger(__name__)
# Bytes ahead of all readers of a version: what is fetched in vain at most, when a job ends or turns out to read
# otherwise. At 1 GB/s this is half a second: a reader's place is told once a second or more often.
MOST_AHEAD_BYTES = 512 * 1024**2
# In flight for one version. The queue of the node drops readahead beyond its budget, of which this is a half.
_MOST_IN_FLIGHT = 32 * 1024**2
# Seconds after which a window that was not renewed is the past: a job that waits for a checkpoint reads nothing.
_STALE = 60.0
# Pieces that are looked at without a pause when all of them are here.
_BREATH = 256
# States of files that are fetched before they are read: also of those that found no room to stay.
_TO_FETCH = (State.MISSING, State.UNKEPT)
_PIECE = struct.Struct("<II")


# An inode, and a chunk of it or WHOLE_FILE. Plain, since thousands of them are told again and again.
WindowPiece = tuple[int, int]


class MissingPiece(NamedTuple):
    """A small file, or a chunk of a large one."""

    entry: Entry
    chunk: int


def _size(one: MissingPiece) -> int:
    return one.entry.size if is_whole(one.entry.size) else CHUNK


def _key(one: MissingPiece) -> DownloadKey:
    return one.entry.ino, one.chunk


def unpacked(pieces: bytes) -> list[WindowPiece]:
    """Read the pieces of a message; what is no whole piece at its end is left out."""
    return list(_PIECE.iter_unpack(pieces[: len(pieces) // _PIECE.size * _PIECE.size]))


@dataclass
class ReaderWindow:
    """What one reader reads next. ``pieces``: of those that were told, without the first ``gone``.

    ``file``: the number of the first one's file, among the files of all that were told.
    """

    pieces: list[WindowPiece]
    gone: int = 0
    file: int = 0

    def move_on(self, gone: int) -> None:
        """Leave out what is past, as counted since it was told."""
        further = gone - self.gone
        if further > 0:
            self.file += sum(one[0] != other[0] for one, other in pairwise(self.pieces[: further + 1]))
            self.pieces, self.gone = self.pieces[further:], gone


def in_turns(windows: Mapping[str, ReaderWindow], uses: NextUses) -> Iterator[WindowPiece]:
    """Merge the windows of several readers: the first piece of each, the second of each, and so on, each once.

    Without those that were read since the windows were told.
    """
    seen: set[WindowPiece] = set()
    turns = [_unread(reader, window, uses) for reader, window in windows.items()]
    for piece in chain.from_iterable(zip_longest(*turns)):
        if piece is not None and piece not in seen:
            seen.add(piece)
            yield piece


def _unread(reader: str, window: ReaderWindow, uses: NextUses) -> Iterator[WindowPiece | None]:
    """Yield the pieces of a window, and None in the place of one that was read."""
    file, last = window.file - 1, -1
    for piece in window.pieces:
        if piece[0] != last:
            file, last = file + 1, piece[0]
        yield None if uses.was_read(reader, file) else piece


@dataclass
class VersionAhead:
    """The windows of one version, by reader, and what fetches what is in them.

    ``is_open``: whether the version is still open so. ``is_paused``: whether nothing is to be fetched that nobody asked
    for.
    """

    fetching: Fetching
    is_open: Callable[[Fetching], bool]
    is_paused: Callable[[], bool]
    limit: AdaptiveLimit
    _windows: dict[str, ReaderWindow] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _landed: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: set[int] = field(default_factory=set)
    _under_way: set[DownloadKey] = field(default_factory=set)  # that were started here
    _left: bool = False  # something of the windows was not started, or did not come
    _uses: NextUses = field(default_factory=NextUses)
    _flying: int = 0
    _flying_bytes: int = 0

    def take(self, reader: str, pieces: list[WindowPiece]) -> None:
        """Take a reader's window in place of the one before."""
        if pieces:
            self._windows[reader] = ReaderWindow(pieces)
        else:
            self._windows.pop(reader, None)
        self._renew(reader)

    def move_on(self, reader: str, gone: int) -> bool:
        """Leave out so many pieces of a reader's window, as counted since it was told; returns whether there is one."""
        window = self._windows.get(reader)
        if window is None:
            return False
        window.move_on(gone)
        if self.fetching.transients.total:  # what is past is held no more, whether or not anybody asked for it
            window.file = 0
            self._renew(reader)
        elif self._left:
            self._news.set()
        return True

    def _renew(self, reader: str) -> None:
        """Look at a reader's window from its beginning."""
        window = self._windows.get(reader)
        self._uses.tell(reader, [ino for ino, _ in window.pieces] if window is not None else [])
        if self.fetching.transients.uses is not None:
            self._foresee(self._uses)
        self._news.set()
        self._landed.set()

    async def run(self) -> None:
        """Fetch until no window is left, or none was renewed for a while."""
        self.fetching.transients.asked = self._landed.set
        self._foresee(self._uses)
        try:
            while self._windows and self.is_open(self.fetching):
                self._news.clear()
                if not self.is_paused():
                    await self._fetch()
                async with asyncio.timeout(_STALE):
                    await self._news.wait()
        except TimeoutError:
            self._windows.clear()
        except SidecarError as error:
            _log.info("nothing is fetched ahead in a known order for now: %s", error.message)
        finally:
            self._foresee(None)

    def _foresee(self, uses: NextUses | None) -> None:
        """Have what is read through wait for its readers, as far as they are known; count what waited in vain."""
        transients = self.fetching.transients
        transients.foresee(uses)
        if transients.unread_bytes:
            self.fetching.context.telemetry.add(UNREAD_BYTES, transients.unread_bytes)
            transients.unread_bytes = 0

    async def _fetch(self) -> None:
        """Start what is in the windows as they are now, in its order; ends early when there are others."""
        ahead, self._left = 0, False
        for looked, piece in enumerate(in_turns(dict(self._windows), self._uses), start=1):
            if looked % _BREATH == 0:
                await asyncio.sleep(0)
            missing = self._missing(piece)
            ahead += sum(map(_size, missing)) or self._usual
            if ahead > MOST_AHEAD_BYTES:
                self._left = True
                return
            for one in missing:
                if _key(one) in self._under_way or not self._may_come(one):
                    continue
                await self._until_there_is_room(one)
                if self._news.is_set() or not self.is_open(self.fetching):
                    return
                self._start(one)

    @property
    def _usual(self) -> int:
        """Bytes for which a piece counts that is here: what it has really is not worth a look."""
        info = self.fetching.version.manifest.info
        return min(CHUNK, info.bytes // max(1, info.files))

    def _start(self, one: MissingPiece) -> None:
        task = self.fetching.start(one.entry, one.chunk, Lane.READAHEAD)
        if task is not None:
            self._under_way.add(_key(one))
            self._flying += 1
            self._flying_bytes += _size(one)
            task.add_done_callback(partial(self._land, one))

    def _missing(self, piece: WindowPiece) -> list[MissingPiece]:
        """Return what is to be fetched of a piece that was named: nothing where it is here, or could not be had."""
        version, (ino, chunk) = self.fetching.version, piece
        if ino >= len(version.states) or version.states[ino] not in _TO_FETCH or ino in self._failed:
            return []
        entry = version.manifest.entry(ino)
        if entry is None or entry.is_dir:
            return []
        if is_whole(entry.size):
            return [MissingPiece(entry, 0)] if ino not in version.parts else []
        if chunk == WHOLE_FILE:
            return [MissingPiece(entry, each) for each in range(chunk_count(entry.size))]
        return [MissingPiece(entry, chunk)] if chunk < chunk_count(entry.size) else []

    def _may_come(self, one: MissingPiece) -> bool:
        """Tell whether there will ever be room for a piece, be it until it is read."""
        return self.fetching.transients.may_hold(one.entry.size) or self.fetching.admits(one.entry)

    async def _until_there_is_room(self, one: MissingPiece) -> None:
        """Wait until a piece may be asked for, or windows change. Raises TimeoutError when nobody reads."""
        while not self._news.is_set() and not self._has_room(one):
            self._landed.clear()
            async with asyncio.timeout(_STALE):
                await self._landed.wait()

    def _has_room(self, one: MissingPiece) -> bool:
        size, flying = _size(one), self._flying_bytes
        if self._flying and (self._flying >= self.limit.value or flying + size > _MOST_IN_FLIGHT):
            return False
        held = self.fetching.transients.takes_ahead(one.entry.ino, one.entry.size, flying)
        return held or self.fetching.admits(one.entry)

    def _land(self, one: MissingPiece, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(_key(one))
        self._flying -= 1
        self._flying_bytes -= _size(one)
        self._landed.set()
        error = None if task.cancelled() else task.exception()
        self._left = self._left or task.cancelled() or error is not None
        if isinstance(error, SourceError) and not error.temporary:
            self._failed.add(one.entry.ino)  # who reads it asks for it again


class KnownOrders:
    """The windows of all versions of a node. ``limit``: of requests in flight, as it adapts."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit = limit
        self._versions: dict[tuple[str, str], tuple[VersionAhead, asyncio.Task[None]]] = {}

    def take(self, request: Ahead, dataset: DatasetCache, fetching: Fetching) -> None:
        """Take a window of an open version of a dataset, or how far its reader is in it.

        Raises NotYetConfigured when that is of a window that is not known.
        """
        key, pieces = (request.uid, request.digest), unpacked(request.pieces)
        ahead, task = self._versions.get(key, (None, None))
        if ahead is not None and task is not None and not (ahead.fetching is fetching and not task.done()):
            task.cancel()
            ahead = None
        if request.gone:
            known = fetching.version.complete or (ahead is not None and ahead.move_on(request.reader, request.gone))
            if not known:
                raise NotYetConfigured(f"no window of {request.reader} is known: say it as a whole")
        elif ahead is not None:
            ahead.take(request.reader, pieces)
        elif pieces and not fetching.version.complete:
            ahead = VersionAhead(fetching, dataset.versions.is_open, lambda: dataset.config.paused, self._limit)
            ahead.take(request.reader, pieces)
            self._versions[key] = ahead, asyncio.create_task(ahead.run())
        self._versions = {key: one for key, one in self._versions.items() if not one[1].done()}

    async def close(self) -> None:
        """Stop fetching ahead."""
        tasks = [task for _, task in self._versions.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

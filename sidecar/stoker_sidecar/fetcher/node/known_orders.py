"""Prefetches known next reads of training jobs: a window of pieces ahead of each reader, in its order.

Files that do not fit into the version's room are held until they are read.

Concurrency: everything runs on one event loop. Each version with a window has one task, which ends when no windows
arrive. It starts downloads as readers and warm-up do, so that a piece is fetched once.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple

from msgspec.structs import replace

from stoker_sidecar.errors import NotYetConfigured, SidecarError, SourceError
from stoker_sidecar.fetcher.datasets.dataset import DatasetCache
from stoker_sidecar.fetcher.download.core.next_uses import NextUses
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.policy import DownloadKey
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.parts import CHUNK, chunk_count, is_whole
from stoker_sidecar.fetcher.sources.core.concurrency import AdaptiveLimit
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.store.core.source_refusal import refuses_all
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_hints import WHOLE_FILE, PrefetchWindow
from stoker_sidecar.wire.fetcher_protocol import UNREAD_BYTES

_log = logging.getLogger(__name__)
# Bytes ahead of all readers of a version. It caps the bytes fetched in vain when a job ends or reads differently. At 1
# GB/s this is half a second, and a reader's place is reported at least once a second.
MOST_AHEAD_BYTES = 512 * 1024**2
# In flight for one version: half of the readahead budget. The node's queue drops readahead beyond it.
_MOST_IN_FLIGHT = 32 * 1024**2
# Seconds after which a window that was not renewed is the past: a job that waits for a checkpoint reads nothing.
_STALE = 60.0
# Pieces that are looked at without a pause when all of them are here.
_BREATH = 256
# States of files that are prefetched, including files without room to stay.
_TO_FETCH = (State.MISSING, State.UNKEPT)
_PIECE = struct.Struct("<II")


# An inode, and a chunk of it or WHOLE_FILE. A plain tuple, since readers send thousands of them repeatedly.
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
    """Read the pieces of a message. Ignore an incomplete piece at the end."""
    return list(_PIECE.iter_unpack(pieces[: len(pieces) // _PIECE.size * _PIECE.size]))


@dataclass
class ReaderWindow:
    """The next reads of one reader. ``pieces``: of the window as sent, without the first ``gone``.

    ``file``: the number of the first piece's file, among the files of the window as sent.
    """

    pieces: list[WindowPiece]
    gone: int = 0
    file: int = 0

    def move_on(self, gone: int) -> None:
        """Drop pieces that were passed. ``gone``: their number since the window was sent."""
        further = gone - self.gone
        if further > 0:
            self.file += sum(one[0] != other[0] for one, other in pairwise(self.pieces[: further + 1]))
            self.pieces, self.gone = self.pieces[further:], gone


def in_turns(windows: Mapping[str, ReaderWindow], uses: NextUses) -> Iterator[WindowPiece]:
    """Merge the windows of several readers: the first piece of each, the second of each, and so on, each once.

    Skip pieces that were read since the windows were sent.
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
    """The windows of one version, by reader, and the task that fetches their pieces.

    ``is_open``: returns True while the version is open with this fetching. ``is_paused``: returns True while only
    readers may cause fetches.
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
    _left: bool = False  # a piece of the windows was not started, or failed
    _uses: NextUses = field(default_factory=NextUses)
    _flying: int = 0
    _flying_bytes: int = 0

    def take(self, reader: str, pieces: list[WindowPiece]) -> None:
        """Replace a reader's window."""
        if pieces:
            self._windows[reader] = ReaderWindow(pieces)
        else:
            self._windows.pop(reader, None)
        self._renew(reader)

    def move_on(self, reader: str, gone: int) -> bool:
        """Drop pieces that a reader passed, counted since its window was sent. Return True if it has a window."""
        window = self._windows.get(reader)
        if window is None:
            return False
        window.move_on(gone)
        if self.fetching.transients.total:  # passed files lose their protection, read or not
            window.file = 0
            self._renew(reader)
        elif self._left:
            self._news.set()
        return True

    def _renew(self, reader: str) -> None:
        """Restart a reader's window from its beginning."""
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
        """Hold read-through files for their known readers. Count the bytes that were prefetched in vain."""
        transients = self.fetching.transients
        transients.prefetch(uses)
        if transients.unread_bytes:
            self.fetching.context.telemetry.add(UNREAD_BYTES, transients.unread_bytes)
            transients.unread_bytes = 0

    async def _fetch(self) -> None:
        """Start the pieces of the current windows in order. End early when the windows change."""
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
        """Bytes that a cached piece counts for. The mean is enough, since a lookup of its size costs too much."""
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
        """Return the parts of a piece to fetch. Empty if it is here, or if its fetch failed."""
        version, (ino, chunk) = self.fetching.version, piece
        if ino >= len(version.states) or version.states[ino] not in _TO_FETCH or ino in self._failed:
            return []
        if not self.fetching.tuning.of(ino).ordered:
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
        """Return True if a piece can ever have room, permanently or until it is read."""
        return self.fetching.transients.may_hold(one.entry.size) or self.fetching.admits(one.entry)

    async def _until_there_is_room(self, one: MissingPiece) -> None:
        """Wait until a piece may be requested, or windows change. Raises TimeoutError when no reader makes progress."""
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
        if isinstance(error, SourceError) and not error.temporary and not refuses_all(error):
            self._failed.add(one.entry.ino)  # its reader asks for it again


class KnownOrders:
    """The windows of all versions of a node. ``limit``: of requests in flight, as it adapts."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit = limit
        self._versions: dict[tuple[str, str], tuple[VersionAhead, asyncio.Task[None]]] = {}

    def take(self, request: PrefetchWindow, dataset: DatasetCache, fetching: Fetching) -> None:
        """Set a window of an open version of a dataset, or the progress of its reader.

        Raises NotYetConfigured for the progress in an unknown window.
        """
        if not fetching.tuning.follows_orders:
            request = replace(request, pieces=b"", gone=0)
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

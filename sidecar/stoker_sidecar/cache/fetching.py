"""Brings pieces of a version onto the disk: one download a piece whoever asks, demand beside warm-up.

Concurrency: everything here runs on one event loop; only disk work goes to threads. ``_flights`` is keyed by
(inode, chunk) and holds the one task that fetches it; readers and warming wait for the same task. A task is never
cancelled by a reader that goes away, only by ``close``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stoker_sidecar.cache.files import Sink, file_md5, is_readable, publish
from stoker_sidecar.cache.manifest import Entry
from stoker_sidecar.cache.parts import PartFile, Transients, new_part, temporary_name
from stoker_sidecar.cache.transfer import download, remove_quietly
from stoker_sidecar.cache.version import State, Version
from stoker_sidecar.core.protocol import ReadDone
from stoker_sidecar.core.quota import Room
from stoker_sidecar.core.spans import chunk_count, chunk_span, chunks_of, is_whole, read_ahead
from stoker_sidecar.errors import CacheDiskFailed, CorruptBody, NotConfigured, NotYetConfigured, SidecarError
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.retry import Retry
from stoker_sidecar.threads import in_thread

# Requests that readers may have in flight for one dataset: as many as a node's data loaders have workers.
_DEMAND_SLOTS = 64
# A reader asks again when what it waited for was dropped before it was answered; twice in a row means no room at all.
_READ_ATTEMPTS = 3

Action = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Surroundings:
    """What fetching needs from the node and the dataset."""

    store: Callable[[], Awaitable[ObjectStore]]
    room: Callable[[], Room]
    arrived: Callable[[int], None]  # bytes from the source
    completed: Callable[[], None]  # the last missing file is here
    lost: Callable[[], None]  # a file that was here is missing or damaged
    failed: Callable[[SidecarError], None]  # a piece could not be fetched
    transient_folder: Callable[[], Path]  # where files lie that are read through and not kept
    retry: Retry
    transient_limit: int  # bytes of files that are read through and not kept, per version


@dataclass
class Fetching:
    """For one version."""

    version: Version
    around: Surroundings
    _flights: dict[tuple[int, int], asyncio.Task[None]] = field(default_factory=dict)
    _demand: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_DEMAND_SLOTS))
    _reserved: dict[int, int] = field(default_factory=dict)  # bytes of the small files that are in flight, by inode
    _transients: Transients = field(init=False)
    waiting_readers: int = 0

    def __post_init__(self) -> None:
        self._transients = Transients(self.around.transient_limit)

    async def read(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
        """Bytes [offset, offset + length) of a file are on the disk when this returns, and where. Raises SidecarError.

        ``doubt``: the reader could not read them where they were said to be.
        """
        entry = self.version.manifest.entry(ino)
        if entry is None or entry.is_dir:
            raise NotConfigured(f"inode {ino} of version {self.version.manifest.info.digest[:12]} is not a file")
        chunks = chunks_of(offset, length, entry.size) or range(1)
        self.waiting_readers += 1
        try:
            if doubt:
                await self._look_again(entry, offset, length)
            for _ in range(_READ_ATTEMPTS):
                await self._bring(entry, chunks)
                if (place := self._place(entry, chunks)) is not None:
                    self._read_ahead(entry, chunks)
                    return place
        finally:
            self.waiting_readers -= 1
        raise CacheDiskFailed(
            f"{self.version.manifest.path(ino)} cannot be held long enough to be read: the disk is too full"
        )

    def admits(self, entry: Entry) -> bool:
        """Whether the file may stay on this disk; when not, warming leaves it from now on."""
        part = self.version.parts.get(entry.ino)
        if part is not None and part.kept:
            return True
        busy = any(ino == entry.ino for ino, _ in self._flights)
        if (part is not None and busy) or not self.around.room().admits(entry.size):
            self.version.states[entry.ino] = State.UNKEPT
            return False
        if part is not None:
            self._drop(part)  # it was read through so far; from now on it is kept
        return True

    def start(self, entry: Entry, chunk: int, *, demand: bool) -> asyncio.Task[None] | None:
        """The task that fetches this piece; None when it is here, or when it may not stay and no one waits for it.

        It ends with a SidecarError when it fails.
        """
        if self._is_here(entry, chunk):
            return None
        key = (entry.ino, chunk)
        if (task := self._flights.get(key)) is not None:
            return task
        action = self._plan_whole(entry, demand) if is_whole(entry.size) else self._plan_chunk(entry, chunk, demand)
        if action is None:
            return None
        task = asyncio.create_task(self._fly(action, demand))
        self._flights[key] = task
        task.add_done_callback(partial(self._landed, key))
        return task

    async def refetch(self, entry: Entry) -> None:
        """Replace a damaged file of the tree, by rename. When none comes it is taken away: a missing file does not lie."""
        self.version.suspect(entry)
        for chunk in range(1 if is_whole(entry.size) else chunk_count(entry.size)):
            if (task := self.start(entry, chunk, demand=False)) is not None:
                await asyncio.wait([task])
        if self.version.states[entry.ino] != State.HERE:
            await in_thread(self.version.take_away, entry)
            self.around.lost()

    async def drain(self) -> None:
        """Wait until what is in flight now has ended."""
        if self._flights:
            await asyncio.wait(list(self._flights.values()))

    async def stop(self) -> None:
        """End what is in flight; its readers are told to ask again."""
        flights = list(self._flights.values())
        for task in flights:
            task.cancel()
        if flights:
            await asyncio.wait(flights)

    async def close(self) -> None:
        """Stop everything."""
        await self.stop()
        self.version.close()

    async def _look_again(self, entry: Entry, offset: int, length: int) -> None:
        """Believe the disk, not the notes: what cannot be read there is missing from now on."""
        if self.version.states[entry.ino] == State.HERE:
            path = self.version.tree_path(entry)
            if not await in_thread(is_readable, path, entry, offset, length):
                await in_thread(self.version.lose, entry)
                self.around.lost()
        elif (part := self.version.parts.get(entry.ino)) is not None and self._is_useless(part):
            self._drop(part)

    def _is_useless(self, part: PartFile) -> bool:
        """Its file is gone; or the disk is full, and its bytes may find room elsewhere."""
        if part.promoting or any(ino == part.ino for ino, _ in self._flights):
            return False
        return self.around.room().free <= 0 or not part.path.exists()

    async def _bring(self, entry: Entry, chunks: range) -> None:
        tasks = [task for chunk in chunks if (task := self.start(entry, chunk, demand=True)) is not None]
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if task.cancelled():  # the version was closed meanwhile
                raise NotYetConfigured(
                    f"{self.version.manifest.info.digest[:12]} is being closed on this node: ask again"
                )
            task.result()

    def _place(self, entry: Entry, chunks: range) -> ReadDone | None:
        if self.version.states[entry.ino] == State.HERE:
            return ReadDone("tree", str(self.version.tree_path(entry)))
        part = self.version.parts.get(entry.ino)
        if part is None or not part.has(chunks):
            return None
        self._transients.touch(entry.ino)
        return ReadDone("parts", str(part.path))

    def _is_here(self, entry: Entry, chunk: int) -> bool:
        if self.version.states[entry.ino] == State.HERE:
            return True
        part = self.version.parts.get(entry.ino)
        return part is not None and bool(part.chunks[chunk]) and not (part.kept and part.complete)

    def _landed(self, key: tuple[int, int], task: asyncio.Task[None]) -> None:
        self._flights.pop(key, None)
        self.version.reserved_bytes -= self._reserved.pop(key[0], 0)
        if not task.cancelled() and isinstance(error := task.exception(), SidecarError):
            self.around.failed(error)  # whoever waits gets it too

    def _plan_whole(self, entry: Entry, demand: bool) -> Action | None:
        """Decided here and not in the task, so that what is in flight already counts when the next file asks for room."""
        kept = self.admits(entry)
        if not kept:
            return partial(self._whole, entry, False) if demand else None
        self.version.reserved_bytes += entry.size
        self._reserved[entry.ino] = entry.size
        return partial(self._whole, entry, True)

    def _plan_chunk(self, entry: Entry, chunk: int, demand: bool) -> Action | None:
        part = self.version.parts.get(entry.ino)
        if part is None or not (part.kept or demand):
            kept = self.admits(entry)
            if not (kept or demand):
                return None
            self._new_part(entry, kept=kept)
        return partial(self._chunk, entry, chunk)

    async def _fly(self, action: Action, demand: bool) -> None:
        if not demand:
            return await self.around.retry(action)
        async with self._demand:
            return await self.around.retry(action)

    async def _whole(self, entry: Entry, kept: bool) -> None:
        temporary = temporary_name(self._parts_folder(kept=kept), entry.ino)
        try:
            await self._fetch_whole(entry, temporary, kept=kept)
        except BaseException:  # cancellation too: half a body must not stay on the disk
            await in_thread(remove_quietly, temporary)
            raise
        if kept:
            self._mark_here(entry)
        else:
            self._hold(PartFile(temporary, entry.ino, entry.size, bytearray(b"\1"), kept=False))

    async def _fetch_whole(self, entry: Entry, temporary: Path, *, kept: bool) -> None:
        path = self.version.manifest.path(entry.ino)
        sink = Sink(temporary, 0, self.version.trust.worth_hashing(entry.etag))
        finish = partial(self._whole_end, entry, path, sink, kept)
        if entry.size == 0:
            await in_thread(finish, False)
        else:
            store = await self.around.store()
            await download(store, path, entry, (0, entry.size), sink, self.around.arrived, finish)

    def _whole_end(self, entry: Entry, path: str, sink: Sink, kept: bool, may_be_md5: bool) -> None:
        """In a thread."""
        if entry.size == 0:
            sink.path.touch()
        elif sink.hashing and may_be_md5:
            self._judge(path, entry.etag, sink.md5())
        if kept:
            publish(sink.path, self.version.paths.tree / path, entry)

    async def _chunk(self, entry: Entry, chunk: int) -> None:
        part = self.version.parts.get(entry.ino)
        if part is None:  # it was spoilt, and dropped by another chunk's attempt
            part = self._new_part(entry, kept=self.admits(entry))
        path = self.version.manifest.path(entry.ino)
        if not part.chunks[chunk]:
            span = chunk_span(entry.size, chunk)
            sink = Sink(part.path, span[0], hashing=False)
            store = await self.around.store()
            finish = partial(_chunk_end, part, chunk)
            await download(store, path, entry, span, sink, self.around.arrived, finish)
        if not part.kept:
            self._hold(part)
        elif part.complete and not part.promoting:
            await self._promote(entry, path, part)

    def _new_part(self, entry: Entry, *, kept: bool) -> PartFile:
        part = new_part(self._parts_folder(kept=kept), entry.ino, entry.size, kept=kept)
        self.version.add_part(part)
        return part

    def _parts_folder(self, *, kept: bool) -> Path:
        return self.version.paths.parts if kept else self.around.transient_folder()

    async def _promote(self, entry: Entry, path: str, part: PartFile) -> None:
        """A large file is whole: check it, move it into the tree."""
        part.promoting = True
        try:
            await in_thread(self._promote_end, entry, path, part)
        except CorruptBody:
            self.version.remove_part(part)
            await in_thread(part.drop)
            raise
        finally:
            part.promoting = False
        self.version.remove_part(part)
        self._mark_here(entry)

    def _promote_end(self, entry: Entry, path: str, part: PartFile) -> None:
        """In a thread."""
        if part.etag_may_be_md5 and self.version.trust.worth_hashing(entry.etag):
            self._judge(path, entry.etag, file_md5(part.path))
        publish(part.path, self.version.paths.tree / path, entry)
        part.forget_map()

    def _mark_here(self, entry: Entry) -> None:
        self.version.mark_here(entry)
        if self.version.warm_files == self.version.manifest.info.files:
            self.around.completed()

    def _hold(self, part: PartFile) -> None:
        """Keep what was read through for as long as there is room for such."""
        if self.version.parts.get(part.ino) is None:
            self.version.add_part(part)
        self._transients.hold(part.ino, part.bytes_here)
        for ino in self._transients.surplus({ino for ino, _ in self._flights}):
            self._drop(self.version.parts[ino])

    def _drop(self, part: PartFile) -> None:
        self._transients.release(part.ino)
        self.version.remove_part(part)
        part.drop()

    def _read_ahead(self, entry: Entry, chunks: range) -> None:
        part = self.version.parts.get(entry.ino)
        following = read_ahead(part.chunks, chunks) if part is not None else None
        if following is not None:
            self.start(entry, following, demand=True)

    def _judge(self, path: str, etag: str, md5: str) -> None:
        """In a thread; ``trust`` is replaced whole, and a lost observation is made again."""
        keep, self.version.trust = self.version.trust.judge(etag, md5)
        if not keep:
            raise CorruptBody(
                f"{path}: the body's MD5 is {md5} where the listing says {etag}: it was spoilt on the way"
            )


def _chunk_end(part: PartFile, chunk: int, may_be_md5: bool) -> None:
    part.etag_may_be_md5 = may_be_md5
    part.mark(chunk)

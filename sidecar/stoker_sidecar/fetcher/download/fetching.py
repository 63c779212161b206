"""Brings pieces of a version onto the disk: one download a piece whoever asks, demand beside warm-up.

Concurrency: everything here runs on one event loop; only disk work goes to threads. ``_downloads`` is keyed by
(inode, chunk) and holds the one task that fetches it; readers and warming wait for the same task. A task is never
cancelled by a reader that goes away, only by ``close``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stoker_sidecar.errors import CacheDiskFailed, NotConfigured, NotWanted, NotYetConfigured, SidecarError
from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.choosing import left_to_warm
from stoker_sidecar.fetcher.context import DownloadContext
from stoker_sidecar.fetcher.core.bandwidth import Sharer
from stoker_sidecar.fetcher.core.lanes import Lane
from stoker_sidecar.fetcher.core.read_through import Transients
from stoker_sidecar.fetcher.core.version_tuning import VersionTuning
from stoker_sidecar.fetcher.download.coming_pieces import ComingPieces
from stoker_sidecar.fetcher.download.download import Action, Download
from stoker_sidecar.fetcher.download.from_others import FromOthers
from stoker_sidecar.fetcher.download.parts import CHUNK, PartFile, chunk_count, chunk_span, chunks_of, is_whole
from stoker_sidecar.fetcher.download.piece_writer import PieceWriter
from stoker_sidecar.fetcher.download.pipeline import Slot
from stoker_sidecar.fetcher.download.policy import DownloadKey, DownloadPolicy, Prefetcher
from stoker_sidecar.fetcher.download.unkept_files import UnkeptFiles
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.fetcher.space.next_epoch import NextEpochRoom
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.packed_copy import is_copy_readable
from stoker_sidecar.wire.fetcher_protocol import ReadDone
from stoker_sidecar.worker.files import is_readable

# A reader asks again when what it waited for was dropped before it was answered; twice in a row means no room at all.
_READ_ATTEMPTS = 3


@dataclass
class Fetching:
    """All downloads of one version: starts them, shares them, and tells readers where the bytes are."""

    version: CachedVersion
    space: VersionSpace
    context: DownloadContext
    _downloads: dict[DownloadKey, Download] = field(default_factory=dict)
    from_others: FromOthers = field(init=False)
    coming: ComingPieces = field(init=False)
    transients: Transients = field(init=False)  # what is read through and not kept
    next_epoch: NextEpochRoom = field(init=False)
    unkept: UnkeptFiles = field(init=False)
    # Has another node give a file that a reader waits for, or the source; None while no other is asked.
    bring_for_reader: Callable[[Entry, Callable[[], Awaitable[None]]], Awaitable[None]] | None = None
    _writer: PieceWriter = field(init=False)
    _policy: DownloadPolicy = field(init=False)
    _prefetcher: Prefetcher = field(init=False)
    _folder: str = field(init=False)
    _digest: str = field(init=False)

    def __post_init__(self) -> None:
        pipeline = self.context.settings.pipeline
        # Asked for several times a file, and a Path takes its name apart each time.
        self._folder, self._digest = str(self.version.paths.folder), self.version.paths.folder.name
        self._writer = PieceWriter(self.version, self.space, self.context)
        self.transients = self._writer.transients
        self.next_epoch = NextEpochRoom(self.version, self.space)
        self.unkept = UnkeptFiles(self.version, self.space, self.context)
        self._policy = self.context.settings.policy(self.version, self.space)
        self._prefetcher = Prefetcher(self.version, pipeline.readahead, pipeline.bounds.readahead_bytes)
        self.from_others = FromOthers(self._writer, self.admits, self._downloads.keys())
        self.coming = ComingPieces(self.version, self._downloads)

    @property
    def tuning(self) -> VersionTuning:
        """How the files of this version are treated now."""
        return self.context.tuning.of(self._digest)

    async def read(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
        """Bring bytes [offset, offset + length) of a file onto the disk; return where they are. Raises SidecarError.

        ``doubt``: the reader could not read them where they were said to be.
        """
        entry = self.version.manifest.entry(ino)
        if entry is None or entry.is_dir:
            raise NotConfigured(f"inode {ino} of version {self.version.manifest.info.digest[:12]} is not a file")
        chunks = chunks_of(offset, length, entry.size) or range(1)
        self.version.waiting_readers += 1
        try:
            if doubt:
                await self._look_again(entry, offset, length)
            for _ in range(_READ_ATTEMPTS):
                await self._bring(entry, chunks, offset + length)
                if (place := self._place(entry, chunks, offset + length)) is not None:
                    return place
        finally:
            self.version.waiting_readers -= 1
        raise CacheDiskFailed(
            f"{self.version.manifest.path(ino)} cannot be held long enough to be read: the disk is too full"
        )

    def admits(self, entry: Entry) -> bool:
        """Tell whether the file may stay on this disk; when not, warming leaves it from now on.

        One that is repaired may, in the room of the damaged one.
        """
        repaired = entry.ino in self.version.repairing
        if not (repaired or self.tuning.of(entry.ino).cached):
            self.version.states[entry.ino] = State.UNKEPT
            return False
        part = self.version.parts.get(entry.ino)
        if part is not None and part.kept:
            return True
        fits = repaired or self.space.room().admits(entry.size)
        if not fits or (part is not None and entry.ino in self.busy()):
            self.version.states[entry.ino] = State.UNKEPT
            return False
        if part is not None:
            self._writer.drop(part)  # it was read through so far; from now on it is kept
        return True

    def start(self, entry: Entry, chunk: int, lane: Lane, run: int = 1) -> "asyncio.Task[None] | None":
        """Start the task that fetches this piece, unless it runs already; it ends with a SidecarError when it fails.

        None: the piece is here, or it may not stay and no one waits for it. ``run``: so many chunks from this one on
        are asked for one after the other, as far as they are missing, so that they may come by one request.
        """
        download = self._start(entry, chunk, lane, run)
        return download.task if download is not None else None

    async def refetch(self, entry: Entry) -> None:
        """Replace a damaged file of the tree, by rename. When none comes it is taken away: a missing file does not lie.

        A version that is closed meanwhile is left as it is. Raises DiskFull or CacheDiskFailed.
        """
        if await in_thread(self.version.tree_path(entry).exists):
            self.version.suspect(entry)
        else:  # readers of a native mount would not find it until then: the version is whole no more
            await self._lose(entry)
        for chunk in range(1 if is_whole(entry.size) else chunk_count(entry.size)):
            if (task := self.start(entry, chunk, Lane.WARM)) is not None:
                await asyncio.wait([task])
                if task.cancelled():
                    return
        if self.version.states[entry.ino] != State.HERE:
            await self.take_away(entry)

    async def take_away(self, entry: Entry) -> None:
        """Take a damaged file out of the tree: its readers must ask. Raises DiskFull or CacheDiskFailed."""
        self.version.lose(entry)
        await in_thread(self.version.take_away, entry)
        self.context.changed()

    def take_up(self) -> None:
        """Have the next pass of warm-up fetch what was left, and what has copies where all of the version fits."""
        version = self.version
        if version.packed and self.space.shortage(0.0).fits:
            version.unpack()
        if not left_to_warm(version, State.MISSING) and version.warm_files < version.manifest.info.files:
            version.forget(State.FAILED)
            version.forget(State.UNKEPT)

    def is_on_its_way(self, ino: int, chunk: int) -> bool:
        """Tell whether a piece is being fetched from the source."""
        return self._policy.key(ino, chunk) in self._downloads

    async def drain(self) -> None:
        """Wait until what is in flight now has ended."""
        if self._downloads:
            await asyncio.wait([download.task for download in self._downloads.values()])

    async def stop(self) -> None:
        """End what is in flight; its readers are told to ask again."""
        await self.from_others.stop()
        tasks = [one.task for one in self._downloads.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop everything."""
        await self.stop()
        self.version.close()

    def _start(self, entry: Entry, chunk: int, lane: Lane, run: int = 1) -> Download | None:
        if self._is_here(entry, chunk, lane):
            return None
        key = self._policy.key(entry.ino, chunk)
        if (running := self._downloads.get(key)) is not None:
            running.slot.wanted_by(lane)
            return running
        size = entry.size if is_whole(entry.size) else chunk_span(entry.size, chunk)[1]
        slot = self._slot(entry, lane, size)
        download = Download(slot, ahead=size if lane is Lane.READAHEAD else 0)
        plan = (
            self._plan_whole(entry, lane, download)
            if is_whole(entry.size)
            else self._plan_chunk(entry, chunk, lane, run)
        )
        if plan is None:
            return None
        download.task = asyncio.create_task(plan(download))
        self._downloads[key] = download
        download.task.add_done_callback(partial(self._landed, key, download))
        return download

    def _slot(self, entry: Entry, lane: Lane, size: int) -> Slot:
        knobs = self.tuning.of(entry.ino)
        sharer = Sharer(self._folder, knobs.bandwidth)
        return self.context.settings.pipeline.slot(lane, size, sharer, knobs.weight)

    async def _look_again(self, entry: Entry, offset: int, length: int) -> None:
        """Believe the disk, not the notes: what cannot be read there is missing from now on."""
        if self.version.states[entry.ino] == State.HERE:
            path = self.version.tree_path(entry)
            if not await in_thread(is_readable, path, entry, offset, length):
                await self._lose(entry)
        elif self.version.states[entry.ino] == State.PACKED:
            copy = Path(self.version.paths.packed_copy(entry.ino))
            if not await in_thread(is_copy_readable, copy, entry.size, offset, length):
                await in_thread(self.version.drop_copy, entry.ino)
                self.version.forget_copy(entry)
        elif (part := self.version.parts.get(entry.ino)) is not None and self._is_useless(part):
            self._writer.drop(part)

    async def _lose(self, entry: Entry) -> None:
        # The marker first: whoever fetches the file meanwhile and finds the version whole sets it again afterwards.
        await in_thread(self.version.unmark, entry)
        self.version.lose(entry)
        self.context.changed()

    def _is_useless(self, part: PartFile) -> bool:
        """Tell whether its file is gone; or the disk is full, and its bytes may find room elsewhere."""
        if part.promoting:
            return False
        return not is_there(part.path) or (self.space.room().free <= 0 and part.ino not in self.busy())

    async def _bring(self, entry: Entry, chunks: range, end: int) -> None:
        """Wait until the bytes up to ``end`` can be read, or a piece has failed."""
        missing = self.version.states[entry.ino] not in (State.HERE, State.PACKED)
        downloads = [one for chunk in chunks if (one := self._start(entry, chunk, Lane.DEMAND)) is not None]
        if missing and not self.transients.may_hold(entry.size):
            self._prefetch(entry, chunks)
        for download in downloads:
            while not (download.task.done() or download.reached >= end):
                download.moved.clear()
                await download.moved.wait()
            if download.task.cancelled():  # the version was closed meanwhile
                digest = self.version.manifest.info.digest[:12]
                raise NotYetConfigured(f"{digest} is being closed on this node: ask again")
            if download.task.done():
                download.task.result()

    def _prefetch(self, entry: Entry, chunks: range) -> None:
        for guess in self._prefetcher.missed(entry, chunks, self._downloads, self.tuning.of(entry.ino)):
            download = self._start(guess.entry, guess.chunk, Lane.READAHEAD)
            if guess.weight:
                if download is None:
                    return  # no room to keep it
                download.guess = guess.weight

    def _place(self, entry: Entry, chunks: range, end: int) -> ReadDone | None:
        if self.version.states[entry.ino] == State.HERE:
            return ReadDone("tree", self._writer.target(entry))
        if self.version.states[entry.ino] == State.PACKED:
            return ReadDone("packed", self.version.paths.packed_copy(entry.ino))
        part = self.version.parts.get(entry.ino)
        if part is None or not all(part.chunks[chunk] or self._reaches(part, chunk, end) for chunk in chunks):
            return None
        self.transients.touch(entry.ino, to_end=is_whole(entry.size) and end >= entry.size)
        return ReadDone("parts", str(part.path))

    def _reaches(self, part: PartFile, chunk: int, end: int) -> bool:
        """Tell whether the first bytes of a chunk are in the part: it is written from front to back."""
        download = self._downloads.get((part.ino, chunk))
        if download is None or download.into is not part:  # it goes on in another one: someone deleted the file
            return False
        return download.reached >= min(end, (chunk + 1) * CHUNK, part.size)

    def _is_here(self, entry: Entry, chunk: int, lane: Lane) -> bool:
        if self.version.states[entry.ino] in (State.HERE, State.PACKED):
            return True
        part = self.version.parts.get(entry.ino)
        if part is None or (lane is Lane.WARM and not part.kept):  # what is only read through may go any moment
            return False
        return bool(part.chunks[chunk]) and not (part.kept and part.complete)

    def busy(self) -> set[int]:
        """Inodes that something is being fetched for: their parts are not dropped."""
        return {ino for ino, _ in self._downloads}

    def _landed(self, key: DownloadKey, download: Download, task: "asyncio.Task[None]") -> None:
        del self._downloads[key]
        self.version.reserved_bytes -= download.reserved
        download.moved.set()
        error = None if task.cancelled() else task.exception()
        if download.guess:
            self._prefetcher.landed(download.guess, here=not task.cancelled() and error is None)
        if task.cancelled() or isinstance(error, NotWanted):
            return
        if isinstance(error, SidecarError):
            self.context.telemetry.failed(error)  # whoever waits gets it too
            return
        if download.ahead:
            self.context.telemetry.came_ahead(download.ahead)
        if download.reserved:
            self._policy.stays(key[0])

    def _plan_whole(self, entry: Entry, lane: Lane, download: Download) -> Action | None:
        """Decide here and not in the task: what is in flight already counts when the next file asks for room."""
        kept = self.admits(entry)
        if not kept and lane is Lane.DEMAND:
            kept = self._policy.make_room(entry.size)
        if not kept and lane is not Lane.WARM:
            kept = self.next_epoch.make_room(entry, self.tuning)
        if not (kept or self.transients.lets_pass(lane, entry.size)):
            return None
        download.reserved = entry.size if kept else 0
        self.version.reserved_bytes += download.reserved
        if not kept:
            return partial(self._whole_read_through, entry)
        return partial(self._whole if lane is Lane.WARM else self._whole_for_reader, entry)

    def _plan_chunk(self, entry: Entry, chunk: int, lane: Lane, run: int) -> Action | None:
        part = self.version.parts.get(entry.ino)
        if part is None or not (part.kept or lane is not Lane.WARM):
            kept = self.admits(entry)
            if not (kept or self.transients.lets_pass(lane, entry.size)):
                return None
            self._writer.new_part(entry, kept=kept)
        return partial(self._chunk, entry, chunk, run)

    def _ahead(self, entry: Entry, chunk: int, run: int) -> int:
        """Return the bytes of a run behind its first chunk that nobody has, or fetches, until now."""
        if self.context.settings.pipeline.lanes.demanded:  # those go on when it is their turn, which may be late
            return 0
        part, size = self.version.parts.get(entry.ino), 0
        for following in range(chunk + 1, chunk + run):
            if (entry.ino, following) in self._downloads or (part is not None and part.chunks[following]):
                break
            size += chunk_span(entry.size, following)[1]
        return size

    async def _whole_for_reader(self, entry: Entry, download: Download) -> None:
        """Have another node give what it has at once: the source is asked for what no other has."""
        if self.bring_for_reader is None:
            await self._whole(entry, download)
        else:
            await self.bring_for_reader(entry, partial(self._whole, entry, download))

    def _whole(self, entry: Entry, download: Download) -> Coroutine[None, None, None]:
        return self.context.settings.retry(partial(self._writer.whole, entry, kept=True, slot=download.slot))

    async def _whole_read_through(self, entry: Entry, download: Download) -> None:
        await self.context.settings.retry(partial(self._writer.whole, entry, kept=False, slot=download.slot))
        self._writer.drop_surplus(self.busy())

    async def _chunk(self, entry: Entry, chunk: int, run: int, download: Download) -> None:
        start = chunk_span(entry.size, chunk)[0]

        def arrived(part: PartFile, here: int) -> None:
            part.restarts[chunk] += start + here < download.reached
            download.into, download.reached = part, max(download.reached, start + here)
            download.moved.set()

        async def bring() -> None:
            if self.version.parts.get(entry.ino) is not download.into:
                download.into, download.reached = None, 0  # what came was dropped with its part
            admits = entry.ino in self.version.parts or self.admits(entry)
            ahead = partial(self._ahead, entry, chunk, run)
            await self._writer.chunk(entry, chunk, admits=admits, slot=download.slot, arrived=arrived, ahead=ahead)

        await self.context.settings.retry(bring)
        download.moved.set()
        # Not tried again here: a file that is spoilt as a whole is not mended by this chunk alone.
        if await self._writer.settle(entry):
            self._writer.drop_surplus(self.busy())

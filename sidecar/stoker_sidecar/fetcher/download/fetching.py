"""Fetches the files of one version for readers and for warming, and returns the places of the bytes."""

import asyncio
from collections.abc import Awaitable, Callable, KeysView
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stoker_sidecar.errors import CacheDiskFailed, NotConfigured, SidecarError
from stoker_sidecar.fetcher.download.admission import Admission, SkippedFiles
from stoker_sidecar.fetcher.download.context import DownloadContext
from stoker_sidecar.fetcher.download.core.read_through import Transients
from stoker_sidecar.fetcher.download.core.refusals import Refusals
from stoker_sidecar.fetcher.download.downloads import Downloads, lend, wait_for_leases
from stoker_sidecar.fetcher.download.next_epoch import NextEpochRoom
from stoker_sidecar.fetcher.download.patient_reads import PatientReads
from stoker_sidecar.fetcher.download.piece_writer import PieceWriter
from stoker_sidecar.fetcher.download.policy import Download, DownloadKey, Prefetcher, most_chunks
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.choosing import left_to_warm
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.parts import CHUNK, PartFile, chunk_count, chunks_of, is_whole
from stoker_sidecar.fetcher.ondisk.version_tuning import VersionTuning
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.fetcher.sources.core.readahead import Readahead
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.packed_copy import is_copy_readable
from stoker_sidecar.wire.fetcher_protocol import ReadDone
from stoker_sidecar.worker.files import is_readable
from stoker_sidecar.worker.transfer import Piece

# Attempts of a read whose bytes were dropped before its answer. Repeated failures mean that no room exists.
_READ_ATTEMPTS = 3


@dataclass
class Fetching:
    """One open version: its reads, its downloads and its repairs."""

    version: CachedVersion
    space: VersionSpace
    context: DownloadContext
    refusals: Refusals = field(default_factory=Refusals)
    downloads: Downloads = field(init=False)
    admission: Admission = field(init=False)
    transients: Transients = field(init=False)  # files that are read through and not kept
    next_epoch: NextEpochRoom = field(init=False)
    unkept: SkippedFiles = field(init=False)
    readers: PatientReads = field(init=False)
    # Stops the downloads from other nodes. None if there are none.
    stop_peers: Callable[[], Awaitable[None]] | None = None
    writer: PieceWriter = field(init=False)
    _prefetcher: Prefetcher = field(init=False)

    def __post_init__(self) -> None:
        pipeline = self.context.settings.pipeline
        self.writer = PieceWriter(self.version, self.space, self.context)
        self.transients = self.writer.transients
        self.next_epoch = NextEpochRoom(self.version, self.space)
        self.unkept = SkippedFiles(self.version, self.space, self.context)
        self.readers = PatientReads(self.version, self.context)
        self.context.source.cached = self._cached
        budget = pipeline.bounds.readahead_bytes
        readahead = Readahead(most_chunks(budget), self._delay, pipeline.clock)
        self._prefetcher = Prefetcher(self.version, readahead, budget)
        in_flight: dict[DownloadKey, Download] = {}
        self.admission = Admission(self.writer, self.next_epoch, in_flight)
        self.downloads = Downloads(self.writer, self.admission, self.readers, self._prefetcher, in_flight)

    @property
    def tuning(self) -> VersionTuning:
        """The tuning of the version's files now."""
        return self.admission.tuning

    async def read(self, ino: int, offset: int, length: int, *, doubt: bool = False) -> ReadDone:
        """Bring bytes [offset, offset + length) of a file onto the disk. Return their place. Raises SidecarError.

        ``doubt``: the reader could not read them at the place that it got.
        """
        entry = self.version.manifest.entry(ino)
        if entry is None or entry.is_dir:
            raise NotConfigured(f"inode {ino} of version {self.version.manifest.info.digest[:12]} is not a file")
        chunks = chunks_of(offset, length, entry.size) or range(1)
        self.version.waiting_readers += 1
        try:
            if doubt:
                await self._doubted(entry, offset, length)
            for _ in range(_READ_ATTEMPTS):
                await self.readers.bring(entry, partial(self._bring, entry, chunks, offset + length))
                if (place := self._place(entry, chunks, offset + length, late=doubt)) is not None:
                    return place
        finally:
            self.version.waiting_readers -= 1
        path = self.version.manifest.path(ino)
        error = CacheDiskFailed(f"{path} cannot be held long enough to be read: the disk is too full")
        raise self.readers.failing(entry, error)

    async def stated(self, entry: Entry) -> Checksum | None:
        """Ask the source for the checksum of a file. None if it has none, or cannot be asked."""
        try:
            return await self.writer.proofs.stated(entry)
        finally:
            self.writer.proofs.forget(entry)

    def admits(self, entry: Entry) -> bool:
        """Return True if a file may stay on this disk; see Admission."""
        return self.admission.admits(entry)

    def busy(self) -> set[int]:
        """Return the inodes with downloads. Their parts are not dropped."""
        return self.admission.busy()

    def start(self, entry: Entry, chunk: int, lane: Lane) -> "asyncio.Task[None] | None":
        """Start the task that fetches a piece, or return the running one. A failed task raises SidecarError.

        None: the piece is here, or it may not stay and no reader waits.
        """
        download = self.downloads.start(entry, chunk, lane)
        return download.task if download is not None else None

    async def refetch(self, entry: Entry) -> None:
        """Replace a damaged file of the tree, by rename. If that fails, take it away: a missing file does not lie.

        Stop if the version is closed. Raises DiskFull or CacheDiskFailed.
        """
        if await in_thread(self.version.tree_path(entry).exists):
            self.version.suspect(entry)
        else:  # readers of a native mount would not find it until then, so the version is incomplete
            await self._lose(entry)
        for chunk in range(1 if is_whole(entry.size) else chunk_count(entry.size)):
            if (task := self.start(entry, chunk, Lane.WARM)) is not None:
                await asyncio.wait([task])
                if task.cancelled():
                    return
        if self.version.states[entry.ino] != State.HERE:
            await self.take_away(entry)

    async def take_away(self, entry: Entry) -> None:
        """Remove a damaged file from the tree, so that readers ask for it. Raises DiskFull or CacheDiskFailed."""
        self.version.lose(entry)
        await in_thread(self.version.take_away, entry)
        self.context.changed()

    def take_up(self, now: float) -> None:
        """Let the next warm-up pass fetch the files that were left, and files with copies if the whole version fits.

        Refused objects follow once they are due. ``now``: seconds.
        """
        version = self.version
        if version.packed and self.space.shortage(0.0).fits:
            version.unpack()
        if not left_to_warm(version, State.MISSING) and version.warm_files < version.manifest.info.files:
            if not self.refusals.left(now):
                version.states.forget(State.FAILED)
            version.states.forget(State.UNKEPT)

    @property
    def under_way(self) -> KeysView[DownloadKey]:
        """The pieces that are being fetched from the source."""
        return self.downloads.in_flight.keys()

    def is_on_its_way(self, ino: int, chunk: int) -> bool:
        """Return True if a piece is being fetched from the source."""
        return (ino, chunk) in self.downloads.in_flight

    async def drain(self) -> None:
        """Wait for the downloads that run now."""
        await self.downloads.drain()

    async def stop(self) -> None:
        """Cancel all downloads. Their readers ask again."""
        self.readers.closed = True
        if self.stop_peers is not None:
            await self.stop_peers()
        await self.writer.proofs.close()
        await self.downloads.stop()

    def renewed(self) -> None:
        """Forget refusals, since the source or its credentials changed."""
        self.refusals.reset()
        self.readers.renewed()

    async def close(self) -> None:
        """Stop everything."""
        await self.stop()
        self.version.close()

    def _cached(self) -> Piece | None:
        """Return a file of the tree as a piece of its object; None if there is none."""
        ino = -1 if self.readers.closed else self.version.states.find(State.HERE)
        entry = self.version.manifest.entry(ino) if ino > 0 else None
        return self.writer.whole_piece(entry) if entry is not None and entry.size else None

    async def _doubted(self, entry: Entry, offset: int, length: int) -> None:
        try:
            await self._look_again(entry, offset, length)
        except SidecarError as error:
            self.readers.failing(entry, error)
            raise

    async def _look_again(self, entry: Entry, offset: int, length: int) -> None:
        """Check on the disk. Bytes that cannot be read there are missing from now on."""
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
            await wait_for_leases([part])
            if self._is_useless(part):
                self.writer.drop(part)

    async def _lose(self, entry: Entry) -> None:
        # Remove the marker first. A download that ends now and finds the version whole sets the marker again.
        await in_thread(self.version.unmark, entry)
        self.version.lose(entry)
        self.context.changed()

    def _is_useless(self, part: PartFile) -> bool:
        """Return True if its file is gone, or if the disk is full and the bytes may find room elsewhere."""
        if part.promoting:
            return False
        return not is_there(part.path) or (self.space.room().free <= 0 and part.ino not in self.busy())

    async def _bring(self, entry: Entry, chunks: range, end: int, *, ahead: bool) -> None:
        """Wait until the bytes up to ``end`` can be read, or a piece has failed. ``ahead``: fetch more than them."""
        missing = self.version.states[entry.ino] not in (State.HERE, State.PACKED)
        late = (entry.ino, chunks.start) in self.downloads.in_flight
        downloads = [one for chunk in chunks if (one := self.downloads.start(entry, chunk, Lane.DEMAND)) is not None]
        if ahead and missing and not self.transients.may_hold(entry.size):
            self._prefetch(entry, chunks, late=late)
        for download in downloads:
            while not (download.task.done() or download.reached >= end):
                download.moved.clear()
                await download.moved.wait()
            if download.task.cancelled():  # the version was closed
                raise self.readers.ask_again()
            if download.task.done():
                download.task.result()

    def _delay(self) -> float:
        return self.context.source.shortest or 0.0

    def _prefetch(self, entry: Entry, chunks: range, *, late: bool) -> None:
        knobs = self.tuning.of(entry.ino)
        for guess in self._prefetcher.missed(entry, chunks, self.downloads.in_flight, knobs, late=late):
            download = self.downloads.start(guess.entry, guess.chunk, Lane.READAHEAD)
            if guess.weight:
                if download is None:
                    return  # no room to keep it
                download.guess = guess.weight

    def _place(self, entry: Entry, chunks: range, end: int, *, late: bool) -> ReadDone | None:
        if self.version.states[entry.ino] == State.HERE:
            return ReadDone("tree", self.writer.target(entry))
        if self.version.states[entry.ino] == State.PACKED:
            return ReadDone("packed", self.version.paths.packed_copy(entry.ino))
        part = self.version.parts.get(entry.ino)
        if part is None or not all(part.chunks[chunk] or self._reaches(part, chunk, end) for chunk in chunks):
            return None
        lend(part, late=late)
        self.transients.touch(entry.ino, to_end=is_whole(entry.size) and end >= entry.size)
        return ReadDone("parts", str(part.path))

    def _reaches(self, part: PartFile, chunk: int, end: int) -> bool:
        """Return True if the bytes of a chunk up to ``end`` are in the part, which is written from front to back."""
        download = self.downloads.in_flight.get((part.ino, chunk))
        if download is None or download.into is not part:  # a user deleted the file, and it continues in a new part
            return False
        return download.reached >= min(end, (chunk + 1) * CHUNK, part.size)

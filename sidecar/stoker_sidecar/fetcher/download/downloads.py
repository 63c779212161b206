"""Single flight: one download for each piece, shared by readers and warming.

Concurrency: everything here runs on one event loop. Only disk work goes to threads. ``in_flight`` is keyed by (inode,
chunk) and holds the one task that fetches a piece. A reader that leaves never cancels it; only ``stop`` does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial

from stoker_sidecar.errors import DeniedEarlier, DiskFull, NotWanted, SidecarError
from stoker_sidecar.fetcher.download.admission import Admission
from stoker_sidecar.fetcher.download.patient_reads import PatientReads
from stoker_sidecar.fetcher.download.piece_writer import PieceWriter
from stoker_sidecar.fetcher.download.policy import Action, Download, DownloadKey, Prefetcher
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.parts import PartFile, chunk_span, is_whole
from stoker_sidecar.fetcher.sources.core.bandwidth import Sharer
from stoker_sidecar.fetcher.sources.core.lanes import Lane
from stoker_sidecar.fetcher.sources.pipeline import Slot
from stoker_sidecar.version.manifest import Entry

# Seconds in which a reader opens the part that it was sent to, and the same for a reader that was late before.
_LEASE, _LATE_LEASE = 0.1, 1.0
# Seconds that a download waits at most for readers of the bytes that it replaces.
_LEASE_PATIENCE = 2.0


def lend(part: PartFile, *, late: bool) -> None:
    """Keep a part for the reader that is sent to it now. ``late``: the reader found its last place empty."""
    part.lease = asyncio.get_running_loop().time() + (_LATE_LEASE if late else _LEASE)


async def wait_for_leases(parts: Iterable[PartFile]) -> None:
    """Wait until readers have opened these parts, some seconds at most.

    Two readers of a disk with room for one piece otherwise drop the bytes of each other again and again.
    """
    time, waiting = asyncio.get_running_loop().time, tuple(parts)
    end = time() + _LEASE_PATIENCE
    while (left := min(end, max((part.lease for part in waiting), default=0.0)) - time()) > 0:  # noqa: ASYNC110 -- leases grow
        await asyncio.sleep(left)


class Downloads:
    """The downloads of one version from its source. ``in_flight``: the running ones."""

    def __init__(
        self,
        writer: PieceWriter,
        admission: Admission,
        readers: PatientReads,
        prefetcher: Prefetcher,
        in_flight: dict[DownloadKey, Download],
    ) -> None:
        self.admission = admission
        self.in_flight = in_flight
        # Fetches a reader's file from a peer, or else from the source. None while no peers are asked.
        self.bring_for_reader: Callable[[Entry, Callable[[], Awaitable[None]]], Awaitable[None]] | None = None
        self._writer = writer
        self._version = writer.version
        self._context = writer.context
        self._readers = readers
        self._prefetcher = prefetcher
        self._sharer = str(writer.version.paths.folder)

    def start(self, entry: Entry, chunk: int, lane: Lane) -> Download | None:
        """Start the download of a piece, or return the running one; see Fetching.start."""
        if self._is_here(entry, chunk, lane):
            return None
        key = entry.ino, chunk
        if (running := self.in_flight.get(key)) is not None:
            running.slot.wanted_by(lane)
            return running
        size = entry.size if is_whole(entry.size) else chunk_span(entry.size, chunk)[1]
        slot = self._slot(entry, lane, size)
        download = Download(slot, ahead=size if lane is Lane.READAHEAD else 0)
        plan = self._plan(entry, chunk, lane, download)
        if plan is None:
            return None
        download.task = asyncio.create_task(plan(download))
        self.in_flight[key] = download
        download.task.add_done_callback(partial(self._landed, key, download))
        return download

    def _plan(self, entry: Entry, chunk: int, lane: Lane, download: Download) -> Action | None:
        """Decide now and not in the task: a download counts before the next file asks for room."""
        if not is_whole(entry.size):
            return partial(self._chunk, entry, chunk) if self.admission.chunk(entry, lane) else None
        kept = self.admission.whole(entry, lane)
        if kept is None:
            return None
        if not kept:
            return partial(self._whole_read_through, entry)
        download.reserved = entry.size
        self._version.reserved_bytes += entry.size
        return partial(self._whole if lane is Lane.WARM else self._whole_for_reader, entry)

    async def drain(self) -> None:
        """Wait for the downloads that run now."""
        if self.in_flight:
            await asyncio.wait([download.task for download in self.in_flight.values()])

    async def stop(self) -> None:
        """Cancel all downloads."""
        for download in self.in_flight.values():
            download.task.cancel()
        await self.drain()

    def _slot(self, entry: Entry, lane: Lane, size: int) -> Slot:
        knobs = self.admission.tuning.of(entry.ino)
        sharer = Sharer(self._sharer, knobs.bandwidth)
        return self._context.settings.pipeline.slot(lane, size, sharer, knobs.weight)

    def _is_here(self, entry: Entry, chunk: int, lane: Lane) -> bool:
        if self._version.states[entry.ino] in (State.HERE, State.PACKED):
            return True
        part = self._version.parts.get(entry.ino)
        if part is None or (lane is Lane.WARM and not part.kept):  # a file that is read through may go at any moment
            return False
        return bool(part.chunks[chunk]) and not (part.kept and part.complete)

    def _landed(self, key: DownloadKey, download: Download, task: "asyncio.Task[None]") -> None:
        del self.in_flight[key]
        self._version.reserved_bytes -= download.reserved
        download.moved.set()
        error = None if task.cancelled() else task.exception()
        if download.guess:
            self._prefetcher.landed(download.guess, here=not task.cancelled() and error is None)
        if task.cancelled() or isinstance(error, NotWanted) or self._readers.closed:
            return  # the manifest of a closed version cannot be read
        if isinstance(error, DeniedEarlier):  # nothing was requested
            return
        if isinstance(error, SidecarError):
            self._readers.failed(key[0], error)
            self._context.telemetry.failed(error)  # waiting readers get it too
            return
        self._readers.came(key[0])
        if download.ahead:
            self._context.telemetry.came_ahead(download.ahead)

    async def _make_room_to_pass(self, entry: Entry, download: Download) -> None:
        """Drop read-through copies from a full disk, and this file's chunks if no download writes to it.

        Otherwise wait until another download ends. If a reader waits, a file that was to stay is read through from now
        on.
        """
        download.is_stuck = True
        await wait_for_leases(self._version.parts.values())
        writing = {key: one.task for key, one in self.in_flight.items() if not one.is_stuck}
        self._writer.drop_all_passing({entry.ino, *(ino for ino, _ in writing)})
        part = self._version.parts.get(entry.ino)
        if part is not None and (self._version.waiting_readers or not part.kept) and self._is_idle(part):
            self._writer.drop(part)
        elif writing:
            await asyncio.wait(writing.values(), return_when=asyncio.FIRST_COMPLETED)

    async def _drop_outgrown(self, entry: Entry, download: Download) -> None:
        """Drop the file's read-through chunks if they exceed the limit and no other download writes to them."""
        part = self._version.parts.get(entry.ino)
        if part is not None and self._writer.has_outgrown(part):
            download.is_stuck = True
            await wait_for_leases([part])
            if self._is_idle(part):
                self._writer.drop(part)
        download.is_stuck = False

    def _is_idle(self, part: PartFile) -> bool:
        """Return True if nothing writes to a part, apart from downloads that found the disk full."""
        writing = {ino for (ino, _), one in self.in_flight.items() if not one.is_stuck}
        return not part.incoming and part.ino not in writing

    async def _whole_for_reader(self, entry: Entry, download: Download) -> None:
        """Fetch a small file from another node that has it, or else from the source."""
        try:
            if self.bring_for_reader is None:
                await self._whole(entry, download)
            else:
                await self.bring_for_reader(entry, partial(self._whole, entry, download))
        except DiskFull:  # other programs filled the disk since the file was admitted
            self._version.states[entry.ino] = State.UNKEPT
            self._version.reserved_bytes -= download.reserved
            download.reserved = 0
            await self._whole_read_through(entry, download)

    def _whole(self, entry: Entry, download: Download) -> Coroutine[None, None, None]:
        return self._context.settings.retry(partial(self._writer.whole, entry, kept=True, slot=download.slot))

    async def _whole_read_through(self, entry: Entry, download: Download) -> None:
        async def bring() -> None:
            try:
                await self._writer.whole(entry, kept=False, slot=download.slot)
            except DiskFull:
                await wait_for_leases(self._version.parts.values())
                self._writer.drop_all_passing(self.admission.busy())
                raise

        await self._context.settings.retry(bring)
        self._writer.drop_surplus(self.admission.busy())

    async def _chunk(self, entry: Entry, chunk: int, download: Download) -> None:
        start = chunk_span(entry.size, chunk)[0]

        def arrived(part: PartFile, here: int) -> None:
            download.into, download.reached = part, max(download.reached, start + here)
            download.moved.set()

        async def bring() -> None:
            await self._drop_outgrown(entry, download)
            if self._version.parts.get(entry.ino) is not download.into:
                download.into, download.reached = None, 0  # its bytes were dropped with their part
            admits = entry.ino in self._version.parts or self.admission.admits(entry)
            try:
                await self._writer.chunk(entry, chunk, admits=admits, slot=download.slot, arrived=arrived)
            except DiskFull:
                await self._make_room_to_pass(entry, download)
                raise

        await self._context.settings.retry(bring)
        if self._version.waiting_readers and (part := self._version.parts.get(entry.ino)) is not None:
            lend(part, late=False)  # until the reader that waits for this chunk gets its answer
        download.moved.set()
        # Not tried again here: this chunk alone does not mend a file that is wrong as a whole.
        if await self._writer.settle(entry):
            self._writer.drop_surplus(self.admission.busy())

"""Takes files, and pieces of large ones, from other nodes: no reader sees them unproven, or waits for large ones.

Concurrency: as in ``Fetching``. A piece goes straight to its place in the file in the making. Who asks the source for
the same piece, a reader above all, ends the other node's word first; so only one of them writes there at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, KeysView
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from stoker_sidecar.fetcher.cached_version import State
from stoker_sidecar.fetcher.core.givers import Gift
from stoker_sidecar.fetcher.download.neighbours import Came
from stoker_sidecar.fetcher.download.parts import PartFile, PassedPiece, chunk_span, is_whole, temporary_name
from stoker_sidecar.fetcher.download.piece_writer import PieceWriter
from stoker_sidecar.fetcher.download.policy import DownloadKey
from stoker_sidecar.store.core.object_checksum import CRC64NVME, Checksum, new_digest
from stoker_sidecar.threads import in_thread, to_its_end
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import PEER_WRONG
from stoker_sidecar.wire.small_files import MOST_BYTES
from stoker_sidecar.worker.files import FileWriter, write_whole
from stoker_sidecar.worker.transfer import remove_quietly

Write = Callable[[bytes], None]
# Has another node hand bytes in order to a function that blocks: WHOLE, BUSY, ABSENT or NOTHING.
Bring = Callable[[Write], Awaitable[Came]]
# Has another node give all of a small file, or tells what became of it.
BringSmall = Callable[[], Awaitable[bytes | Came]]


class FromOthers:
    """What other nodes give of one version, for nobody who waits.

    ``admits``: whether a file may stay; ``under_way``: what is being fetched from the source.
    """

    def __init__(
        self,
        writer: PieceWriter,
        admits: Callable[[Entry], bool],
        under_way: KeysView[DownloadKey],
    ) -> None:
        self._writer = writer
        self._version = writer.version
        self._telemetry = writer.context.telemetry
        self._admits = admits
        self._given = writer.context.settings.given
        self._under_way = under_way
        self._tasks: set[asyncio.Task[Came]] = set()
        self._settling: dict[asyncio.Task[bool], int] = {}
        self._unprovable: set[int] = set()

    def start_copy(self, entry: Entry, bring: Bring) -> "asyncio.Task[Came]":
        """Start to take a whole file; the task says what came of it. Where it did not come all is as before."""
        return self._start(self._copy(entry, bring))

    def start_small(self, entry: Entry, bring: BringSmall) -> "asyncio.Task[Came]":
        """Start to take a small file that comes in memory; else as ``start_copy``."""
        return self._start(self._small(entry, bring))

    async def take_for_reader(self, entry: Entry, bring: Bring) -> Came:
        """Take a whole file for which a reader waits, and for which there is room: WHOLE, it is proven and here.

        Raises DiskFull or CacheDiskFailed.
        """
        proof = await self._proof(entry)
        if proof is None:
            return Came.USELESS
        if not self.takes_small(entry):
            return await self._copied(entry, proof, bring)
        content = bytearray()
        if (came := await _within(entry.size, content.extend, bring)) is not Came.WHOLE:
            return came
        if self.is_here(entry):
            return Came.USELESS
        return await to_its_end(asyncio.create_task(self._keep_small(entry, proof, memoryview(content))))

    def is_here(self, entry: Entry) -> bool:
        """Tell whether a file has come, from wherever."""
        return self._version.states[entry.ino] in (State.HERE, State.PACKED)

    def takes_small(self, entry: Entry) -> bool:
        """Tell whether a file may come in memory: one that is to be compressed comes to the disk first."""
        return 0 < entry.size <= MOST_BYTES and self._writer.packing.wanted(entry) is None

    def start_piece(
        self, entry: Entry, chunk: int, gift: Gift, bring: Bring, *, passing: bool = False
    ) -> "asyncio.Task[Came]":
        """Start to take a piece of a large file; WHOLE: it is held until the file is proven.

        ``passing``: others may have it from here while it comes.
        """
        return self._start(self._piece(entry, chunk, gift, bring, passing=passing))

    def believes(self, entry: Entry) -> bool:
        """Tell whether pieces of a file may be taken: something proves it, as far as is known."""
        part = self._version.parts.get(entry.ino)
        return entry.ino not in self._unprovable and (part is None or part.kept)

    def settles(self, entry: Entry) -> bool:
        """Tell whether a file that is all here is being proven."""
        return entry.ino in self._settling.values()

    async def stop(self) -> None:
        """End what is under way."""
        tasks = [*self._tasks, *self._settling]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._writer.proofs.close()

    def _start(self, work: Coroutine[Any, Any, Came]) -> "asyncio.Task[Came]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _copy(self, entry: Entry, bring: Bring) -> Came:
        proof = await self._proof(entry)
        if proof is None or not self._admits(entry):
            return Came.USELESS
        self._version.reserved_bytes += entry.size
        try:
            async with self._given:
                return await self._copied(entry, proof, bring)
        finally:
            self._version.reserved_bytes -= entry.size

    async def _copied(self, entry: Entry, proof: Checksum, bring: Bring) -> Came:
        """Take a whole file into a place of its own; keep it only if it is what the source says it is."""
        version = self._version
        temporary, digest = temporary_name(str(version.paths.parts), entry.ino), new_digest(proof.algorithm)
        file, kept = FileWriter(temporary, 0, digest=digest), False
        try:
            if not entry.size:  # an empty file is one too
                await in_thread(file.write, b"")
            if (came := await _within(entry.size, file.write, bring)) is not Came.WHOLE:
                return came
            if digest.digest() != proof.value:
                return self._wrong(proof)
            file.close()
            if not version.is_missing(entry.ino) or entry.ino in version.parts:
                return Came.USELESS  # a reader's demand was quicker, or has begun
            await to_its_end(asyncio.create_task(self._keep(entry, temporary)))
            kept = True
        finally:
            file.close()
            if not kept:
                await in_thread(remove_quietly, Path(temporary))
        return Came.WHOLE

    async def _small(self, entry: Entry, bring: BringSmall) -> Came:
        proof = await self._proof(entry)
        if proof is None or not self._admits(entry):
            return Came.USELESS
        version = self._version
        version.reserved_bytes += entry.size
        try:
            content = await bring()
            if isinstance(content, Came):
                return content
            if not version.is_missing(entry.ino) or entry.ino in version.parts:
                return Came.USELESS  # a reader's demand was quicker, or has begun
            return await to_its_end(asyncio.create_task(self._keep_small(entry, proof, content)))
        finally:
            version.reserved_bytes -= entry.size

    async def _keep_small(self, entry: Entry, proof: Checksum, content: bytes | memoryview) -> Came:
        """Prove it and give it its name, in one turn of a thread: of a small file turns take longer than all else."""
        temporary = temporary_name(str(self._version.paths.parts), entry.ino)
        if not await in_thread(_write_proven, temporary, self._writer.target(entry), content, entry, proof):
            return self._wrong(proof)
        self._telemetry.gave(entry.size)
        await self._writer.note(entry, 0)
        return Came.WHOLE

    async def _keep(self, entry: Entry, temporary: str) -> None:
        writer = self._writer
        size = await writer.packing.keep(entry, temporary, writer.target(entry), writer.packing.wanted(entry))
        if size:  # of a copy of it, which is kept in its place
            await in_thread(remove_quietly, Path(temporary))
        self._telemetry.gave(entry.size)
        await writer.note(entry, size)

    def _wrong(self, proof: Checksum) -> Came:
        """Tell wrong bytes from an ETag that is no MD5, of which nothing is known of this source yet."""
        if proof.algorithm == "md5" and not self._version.trust.proven:
            return Came.NOTHING
        self._telemetry.add(PEER_WRONG)
        return Came.WRONG

    async def _piece(self, entry: Entry, chunk: int, gift: Gift, bring: Bring, *, passing: bool) -> Came:
        if await self._proof(entry) is None:
            return Came.USELESS
        offset, length = chunk_span(entry.size, chunk)
        async with self._given:
            part = self._part(entry, chunk)
            if part is None:
                return Came.USELESS
            file = FileWriter(str(part.path), offset, creating=False, digest=new_digest(CRC64NVME))
            with self._passing(part, chunk, file) if passing else nullcontext(file.write) as write:
                came = await self._take(part, chunk, gift, file, partial(_within, length, write, bring))
        if came is Came.WHOLE:
            self._telemetry.gave(length)
            self._settle_beside(entry)
        return came

    def _settle_beside(self, entry: Entry) -> None:
        """Have the file proven once it is all here, which takes longer than who gave the last piece is waited for.

        Where that fails, the next pass finds that it was not moved into the tree, and learns why.
        """
        task = asyncio.create_task(self._settle(entry))
        self._settling[task] = entry.ino
        task.add_done_callback(self._settling.pop)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _settle(self, entry: Entry) -> bool:
        await self._writer.read_ahead(entry)
        return await self._writer.settle(entry)

    async def _take(
        self, part: PartFile, chunk: int, gift: Gift, file: FileWriter, bring: Callable[[], Awaitable[Came]]
    ) -> Came:
        task = asyncio.current_task()
        assert task is not None, "runs as a task"
        assert file.digest is not None, "made with one"
        part.incoming[chunk] = task
        try:
            came = await bring()
            if came is not Came.WHOLE:
                return came
            await in_thread(part.note_held, chunk)
            if chunk in part.doubted:
                return Came.USELESS
            part.hold(chunk, gift, file.digest.digest())
            self._version.arrivals.came()
            return came
        finally:
            file.close()
            del part.incoming[chunk]

    @contextmanager
    def _passing(self, part: PartFile, chunk: int, file: FileWriter) -> Iterator[Write]:
        """Tell others that a piece comes, and how far it is, while inside; give the function that writes it."""
        loop, passed = asyncio.get_running_loop(), PassedPiece(file.offset)

        def write(data: bytes) -> None:
            file.write(data)
            loop.call_soon_threadsafe(passed.reach, file.offset)

        part.passing[chunk] = passed
        self._version.arrivals.came()
        try:
            yield write
        finally:
            part.restarts[chunk] += chunk not in part.held
            del part.passing[chunk]
            passed.moved.set()

    def _part(self, entry: Entry, chunk: int) -> PartFile | None:
        """Return the file in the making that a piece is to go to; None: it is not wanted any more."""
        if not (self._version.is_missing(entry.ino) and self.believes(entry) and self._admits(entry)):
            return None
        part = self._version.parts.get(entry.ino) or self._writer.new_part(entry, kept=True)
        taken = chunk in part.incoming or chunk in part.doubted or (entry.ino, chunk) in self._under_way
        if part.there[chunk] or taken or part.promoting:
            return None
        return part

    async def _proof(self, entry: Entry) -> Checksum | None:
        proof = await self._writer.proofs.of(entry)
        if proof is None and not is_whole(entry.size):
            self._unprovable.add(entry.ino)
        return proof


def _write_proven(temporary: str, target: str, content: bytes | memoryview, entry: Entry, proof: Checksum) -> bool:
    """Write a file if it is what the source says it is; tell whether it is.

    Blocks. Raises DiskFull or CacheDiskFailed.
    """
    digest = new_digest(proof.algorithm)
    digest.update(content)
    if digest.digest() != proof.value:
        return False
    try:
        write_whole(temporary, [content], target, entry)
    except BaseException:
        remove_quietly(Path(temporary))
        raise
    return True


async def _within(size: int, write: Write, bring: Bring) -> Came:
    """Bring just ``size`` bytes: what lies behind them in the file is another's."""
    left = size

    def bounded(data: bytes) -> None:
        nonlocal left
        if len(data) > left:
            left = -1
        else:
            left -= len(data)
            write(data)

    came = await bring(bounded)
    return Came.NOTHING if came is Came.WHOLE and left != 0 else came

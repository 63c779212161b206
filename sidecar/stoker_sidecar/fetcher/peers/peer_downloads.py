"""Takes files, and pieces of large files, from other nodes. Readers see no unproven bytes and wait for no large file.

Concurrency: as in ``Fetching``. A piece goes straight to its place in the partial file. A request to the source for the
same piece, above all a reader's, first ends the transfer from the node. So only one of them writes there at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, KeysView
from functools import partial
from pathlib import Path
from typing import Any

from stoker_sidecar.fetcher.download.piece_writer import PieceWriter
from stoker_sidecar.fetcher.download.policy import DownloadKey
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.parts import PartFile, chunk_span, is_whole, temporary_name
from stoker_sidecar.fetcher.ondisk.piece_maps import Gift
from stoker_sidecar.fetcher.peers.peer_client import Came
from stoker_sidecar.store.core.object_checksum import CRC64NVME, Checksum, new_digest
from stoker_sidecar.threads import in_thread, to_its_end
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import PEER_WRONG
from stoker_sidecar.wire.small_files import MOST_BYTES
from stoker_sidecar.worker.files import FileWriter, write_whole
from stoker_sidecar.worker.transfer import remove_quietly

Write = Callable[[bytes], None]
# Passes bytes from another node in order to a function that blocks. Returns WHOLE, BUSY, ABSENT or NOTHING.
Bring = Callable[[Write], Awaitable[Came]]
# Fetches a small file from another node. Returns its bytes, or the outcome.
BringSmall = Callable[[], Awaitable[bytes | Came]]


class PeerDownloads:
    """Downloads of one version from other nodes. No reader waits for them.

    ``admits``: returns True if a file may stay. ``under_way``: downloads from the source.
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
        """Start to copy a whole file. The task returns the outcome. A failure changes nothing."""
        return self._start(self._copy(entry, bring))

    def start_small(self, entry: Entry, bring: BringSmall) -> "asyncio.Task[Came]":
        """Start to copy a small file in memory. Otherwise as ``start_copy``."""
        return self._start(self._small(entry, bring))

    async def take_for_reader(self, entry: Entry, bring: Bring) -> Came:
        """Take a whole file for a waiting reader, with room for it. WHOLE: it is proven and here.

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
        """Return True if a file has arrived, from any source."""
        return self._version.states[entry.ino] in (State.HERE, State.PACKED)

    def takes_small(self, entry: Entry) -> bool:
        """Return True if a file may arrive in memory. A file to be compressed goes to the disk first."""
        return 0 < entry.size <= MOST_BYTES and self._writer.packing.wanted(entry) is None

    def start_piece(self, entry: Entry, chunk: int, gift: Gift, bring: Bring) -> "asyncio.Task[Came]":
        """Start to take a piece of a large file; WHOLE: it is held until the file is proven."""
        return self._start(self._piece(entry, chunk, gift, bring))

    def believes(self, entry: Entry) -> bool:
        """Return True if pieces of a file may be taken, because a proof of it may exist."""
        part = self._version.parts.get(entry.ino)
        return entry.ino not in self._unprovable and (part is None or part.kept)

    def settles(self, entry: Entry) -> bool:
        """Return True while a complete file is being proven."""
        return entry.ino in self._settling.values()

    async def stop(self) -> None:
        """Cancel all transfers."""
        tasks = [*self._tasks, *self._settling]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

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
        """Write a whole file to a temporary path. Keep it only if it has the source's checksum."""
        version = self._version
        temporary, digest = temporary_name(str(version.paths.parts), entry.ino), proof.new_digest()
        file, kept = FileWriter(temporary, 0, digest=digest), False
        try:
            if not entry.size:  # an empty file is one too
                await in_thread(file.write, b"")
            if (came := await _within(entry.size, file.write, bring)) is not Came.WHOLE:
                return came
            if digest.digest() != proof.value:
                return self._wrong(proof)
            self._writer.proofs.matched(proof)
            file.close()
            if not version.states.is_missing(entry.ino) or entry.ino in version.parts:
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
            if not version.states.is_missing(entry.ino) or entry.ino in version.parts:
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
        """Return WRONG for wrong bytes. Return NOTHING while the ETag may be no MD5, since the source is unknown."""
        if not self._writer.proofs.is_certain(proof):
            return Came.NOTHING
        self._telemetry.add(PEER_WRONG)
        return Came.WRONG

    async def _piece(self, entry: Entry, chunk: int, gift: Gift, bring: Bring) -> Came:
        if await self._proof(entry) is None:
            return Came.USELESS
        offset, length = chunk_span(entry.size, chunk)
        async with self._given:
            part = self._part(entry, chunk)
            if part is None:
                return Came.USELESS
            file = FileWriter(str(part.path), offset, creating=False, digest=new_digest(CRC64NVME))
            came = await self._take(part, chunk, gift, file, partial(_within, length, file.write, bring))
        if came is Came.WHOLE:
            self._telemetry.gave(length)
            self._settle_beside(entry)
        return came

    def _settle_beside(self, entry: Entry) -> None:
        """Prove the file once it is complete. This takes longer than the timeout of the last giver.

        If it fails, the next pass finds the file outside the tree, and gets the error.
        """
        task = asyncio.create_task(self._settle(entry))
        self._settling[task] = entry.ino
        task.add_done_callback(self._settling.pop)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _settle(self, entry: Entry) -> bool:
        await self._writer.checks.read_ahead(entry)
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

    def _part(self, entry: Entry, chunk: int) -> PartFile | None:
        """Return the partial file for a piece. None if the piece is not wanted."""
        if not (self._version.states.is_missing(entry.ino) and self.believes(entry) and self._admits(entry)):
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
    """Write a file if it has the source's checksum. Return True if it has.

    Blocks. Raises DiskFull or CacheDiskFailed.
    """
    digest = proof.new_digest()
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
    """Bring exactly ``size`` bytes. The bytes behind them in the file belong to another transfer."""
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

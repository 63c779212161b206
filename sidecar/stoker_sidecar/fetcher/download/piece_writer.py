"""Writes bytes from sources into the files of one version.

Writes small files whole and large ones chunk by chunk, and checks them.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from stoker_sidecar.errors import CacheDiskFailed, CorruptBody
from stoker_sidecar.fetcher.download.context import DownloadContext
from stoker_sidecar.fetcher.download.core.read_through import Transients, room_to_pass
from stoker_sidecar.fetcher.download.packing import VersionPacking
from stoker_sidecar.fetcher.download.proofs import PartChecks, Proofs
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.file_sums import note_arrival
from stoker_sidecar.fetcher.ondisk.parts import PartFile, chunk_span, new_part, temporary_name
from stoker_sidecar.fetcher.ondisk.telemetry import NewBytes
from stoker_sidecar.fetcher.sources.pipeline import Slot
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.fetcher.space.cache_disk import LEAST_ROOM
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.worker.transfer import Arrived, Fetched, Piece, remove_quietly

# Receives the part with the bytes of a chunk, and their number from the chunk's start.
ArrivedInPart = Callable[[PartFile, int], None]


@dataclass
class PieceWriter:
    """Writes the pieces of one version to the disk, and gives whole files their names.

    It makes no decisions about fetches.
    """

    version: CachedVersion
    space: VersionSpace
    context: DownloadContext
    transients: Transients = field(init=False)
    packing: VersionPacking = field(init=False)
    proofs: Proofs = field(init=False)
    checks: PartChecks = field(init=False)
    _tree: str = field(init=False)
    _parts: str = field(init=False)

    def __post_init__(self) -> None:
        self._tree, self._parts = str(self.version.paths.tree), str(self.version.paths.parts)
        self.transients = Transients(self.context.settings.transient_limit)
        self.packing = VersionPacking(self.version, self.space, self.context)
        self.proofs = Proofs(self.version, self.context)
        self.checks = PartChecks(self.version, self.context, self.proofs)

    async def whole(self, entry: Entry, *, kept: bool, slot: Slot) -> None:
        """Bring a small file: into the tree when ``kept``, else as a part that holds it for a while.

        Raises SidecarError.
        """
        # A string: a Path object for each of a million files costs as much as all else here.
        temporary = temporary_name(self._parts if kept else str(self.space.transient_folder()), entry.ino)
        knobs = self.packing.wanted(entry) if kept else None
        size = 0
        try:
            published = await self._bring_whole(entry, temporary, publishing=kept and knobs is None, slot=slot)
            if kept and not published:  # its ETag is not its MD5, and for this source need not be; or a copy is wanted
                size = await self.packing.keep(entry, temporary, self.target(entry), knobs)
        except BaseException:  # cancellation too: half a body must not stay on the disk
            await in_thread(remove_quietly, Path(temporary))
            raise
        if kept:
            await self.note(entry, size)
            if size:
                await in_thread(remove_quietly, Path(temporary))
        else:
            self._hold(PartFile(Path(temporary), entry.ino, entry.size, bytearray(b"\1"), kept=False))

    def target(self, entry: Entry) -> str:
        """Return the path of a whole file. A string, since a Path takes 10 us for each cold file."""
        return f"{self._tree}/{self.version.manifest.path_of(entry)}"

    async def chunk(
        self,
        entry: Entry,
        chunk: int,
        *,
        admits: bool,
        slot: Slot,
        arrived: ArrivedInPart,
    ) -> None:
        """Bring a piece of a large file. Raises SidecarError.

        ``admits``: it may be kept if its part was dropped. ``arrived``: receives the progress.
        """
        if self.version.states[entry.ino] == State.HERE:  # peers gave the rest, and it is proven
            return
        part = self.version.parts.get(entry.ino) or self.new_part(entry, kept=admits)
        await self._take_back(part, chunk)
        if not part.chunks[chunk]:
            offset, length = chunk_span(entry.size, chunk)
            piece = self.whole_piece(entry, str(part.path))._replace(offset=offset, length=length)
            fetched = await self._get_chunk(piece, part, slot, arrived)
            part.etag_may_be_md5 = fetched.etag_may_be_md5
            part.sums[chunk] = bytes.fromhex(fetched.crc64nvme)
            await self.checks.compare(part, chunk)
            if part.kept:
                await in_thread(part.mark, chunk)
            else:
                part.mark(chunk)
            self.version.arrivals.came()

    async def settle(self, entry: Entry) -> bool:
        """Move a part with all its chunks into the tree.

        Return True if it is only read through.

        Raises CorruptBody after it deletes the part.
        """
        part = self.version.parts.get(entry.ino)
        if part is None:
            return False
        if not part.kept:
            self._hold(part)
        elif part.complete and not part.promoting:
            await self._promote(entry, part)
        return not part.kept

    async def _take_back(self, part: PartFile, chunk: int) -> None:
        """Withdraw a chunk of another node and cancel its transfer, because the source is asked for it."""
        part.take_back(chunk)
        if (incoming := part.incoming.get(chunk)) is not None:
            incoming.cancel()
            await asyncio.wait([incoming])  # at most for one write to the disk
            part.take_back(chunk)

    def new_part(self, entry: Entry, *, kept: bool) -> PartFile:
        """Begin a part for the chunks of a large file. Raises DiskFull or CacheDiskFailed."""
        part = new_part(self._folder(kept=kept), entry.ino, entry.size, kept=kept)
        self.version.add_part(part)
        return part

    def drop_surplus(self, busy: Collection[int]) -> None:
        """Drop read-through files beyond the limit, the room or the inodes of the disk; not those in ``busy``.

        Blocks for a moment.
        """
        self._drop_down_to(0 if self.space.disk.is_short_of_inodes() else self._room_to_pass(), busy)

    def drop_all_passing(self, busy: Collection[int]) -> None:
        """Drop all read-through files, since the disk is full; not those in ``busy``.

        The last used one goes only if it is the only one.

        Blocks for a moment.
        """
        last = self.transients.last_resort(busy)
        self._drop_down_to(0, busy)
        for ino in last:
            self.drop(self.version.parts[ino])
        self.space.disk.forget()

    def has_outgrown(self, part: PartFile) -> bool:
        """Return True if a read-through part exceeds the limit of all such files."""
        return not part.kept and part.bytes_here >= min(self.transients.limit, self._room_to_pass())

    def fills_disk(self, part: PartFile, on_their_way: int) -> bool:
        """Return True if a read-through part and its bytes on their way take the room of all such files."""
        return not part.kept and part.bytes_here + on_their_way >= self._room_to_pass()

    def _room_to_pass(self) -> int:
        disk, held = self.space.disk, self.transients.total
        if disk.available() < self.transients.limit + LEAST_ROOM:
            disk.forget()  # the cached figure may be outdated
        return room_to_pass(disk.available(), held)

    def _drop_down_to(self, room: int, busy: Collection[int]) -> None:
        for ino in self.transients.surplus(busy, room):
            self.drop(self.version.parts[ino])

    def drop(self, part: PartFile) -> None:
        """Drop a part that is read through or unusable. Blocks for a moment."""
        if self.version.parts.get(part.ino) is part:
            self.transients.release(part.ino)
            self.checks.fronts.forget(part.ino)
        self.version.remove_part(part)
        part.drop()

    async def _bring_whole(self, entry: Entry, temporary: str, *, publishing: bool, slot: Slot) -> bool:
        """Bring it into ``temporary``, checked; return whether it has its name already."""
        # Made at once: ``_replace`` takes longer than all else here.
        key, size = self.version.manifest.path_of(entry), entry.size
        target = f"{self._tree}/{key}" if publishing else ""
        hashing = size > 0 and self.version.trust.worth_hashing(entry.etag)
        piece = Piece(
            key, entry.etag, entry.version_id, 0, size, temporary, target, size, entry.mtime_ns, hashing=hashing
        )
        fetched = await self._get(piece, slot, NewBytes(self._arrived).come_to)
        if fetched.md5:
            self.checks.judge(piece.key, entry.etag, fetched.md5)
        return fetched.published

    async def _get_chunk(self, piece: Piece, part: PartFile, slot: Slot, arrived: ArrivedInPart) -> Fetched:
        counted = NewBytes(self._arrived)

        def told(here: int) -> None:
            counted.come_to(here)
            arrived(part, here)

        try:
            async with slot:
                return await self.context.source.fetch(piece, told)
        except CacheDiskFailed:
            if not is_there(part.path):  # a user deleted it: the next attempt starts over
                self.drop(part)
            raise

    def _arrived(self, size: int) -> None:
        self.context.telemetry.arrived(size)
        self.context.settings.pipeline.arrived(size)

    def whole_piece(self, entry: Entry, into: str = "") -> Piece:
        """Return a piece with the whole object, for the file ``into``."""
        key = self.version.manifest.path_of(entry)
        return Piece(
            key, entry.etag, entry.version_id, 0, entry.size, into, "", entry.size, entry.mtime_ns, hashing=False
        )

    async def _get(self, piece: Piece, slot: Slot, arrived: Arrived) -> Fetched:
        async with slot:
            return await self.context.source.fetch(piece, arrived)

    def _folder(self, *, kept: bool) -> Path:
        return self.version.paths.parts if kept else self.space.transient_folder()

    async def _promote(self, entry: Entry, part: PartFile) -> None:
        """Check a large file that is whole, and move it into the tree."""
        part.promoting = True
        try:
            if not part.held:
                await self.checks.check_from_source(entry, part)
            elif not await self.checks.prove(entry, part):
                await self.checks.doubt(part)
                return
            if not part.complete:  # a reader requested a held chunk, which now comes from the source
                return
            for chunk in tuple(part.replaced):
                await self.checks.compare(part, chunk)
            # Before the file has its name: from then on, nothing may wait until it is noted as here.
            if (arrived := part.crc64nvme()) is not None:
                await in_thread(note_arrival, self.version.paths, entry.ino, arrived)
            target, knobs = str(self.version.tree_path(entry)), self.packing.wanted(entry)
            size = await self.packing.keep(entry, str(part.path), target, knobs)
        except CorruptBody:
            self.checks.fronts.forget(entry.ino)
            self.proofs.forget(entry)
            self.version.remove_part(part)
            await in_thread(part.drop)
            raise
        finally:
            part.promoting = False
        self.version.remove_part(part)
        self.checks.fronts.forget(entry.ino)
        await self.note(entry, size)
        await in_thread(part.drop)

    async def note(self, entry: Entry, size: int) -> None:
        """Note that a file is whole here. ``size``: of its compressed copy, if that replaces it."""
        self.proofs.forget(entry)
        await self.packing.note(entry, size)
        self.version.arrivals.came()
        if self.version.here_files == self.version.manifest.info.files:
            self.context.changed()

    def _hold(self, part: PartFile) -> None:
        """Keep a read-through part until ``drop_surplus`` drops it."""
        if self.version.parts.get(part.ino) is None:
            self.version.add_part(part)
        self.transients.hold(part.ino, part.bytes_here, part.size)

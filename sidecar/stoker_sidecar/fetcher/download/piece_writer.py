"""Puts what sources send into the files of one version.

Small files whole, large ones chunk by chunk, and checks them.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from stoker_sidecar.errors import CacheDiskFailed, CorruptBody, InternalError
from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.fetcher.context import DownloadContext
from stoker_sidecar.fetcher.core.read_through import Transients
from stoker_sidecar.fetcher.download.front_digests import FrontDigests
from stoker_sidecar.fetcher.download.packing import VersionPacking
from stoker_sidecar.fetcher.download.parts import PartFile, chunk_span, new_part, temporary_name
from stoker_sidecar.fetcher.download.pipeline import Slot
from stoker_sidecar.fetcher.download.proofs import Proofs
from stoker_sidecar.fetcher.space.budget import VersionSpace
from stoker_sidecar.fetcher.telemetry import NewBytes
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.store.core.object_checksum import CRC64NVME, Checksum, check
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import PEER_WRONG
from stoker_sidecar.worker.files import file_digest
from stoker_sidecar.worker.progress import Arrived
from stoker_sidecar.worker.transfer import Fetched, Piece, remove_quietly

# Is told which part has the bytes of a chunk, and how many of them from the chunk's start.
ArrivedInPart = Callable[[PartFile, int], None]


@dataclass
class PieceWriter:
    """Writes the pieces of one version to the disk, and gives whole files their names.

    It decides nothing about what is fetched.
    """

    version: CachedVersion
    space: VersionSpace
    context: DownloadContext
    transients: Transients = field(init=False)
    packing: VersionPacking = field(init=False)
    proofs: Proofs = field(init=False)
    _fronts: FrontDigests = field(default_factory=FrontDigests)
    _tree: str = field(init=False)
    _parts: str = field(init=False)

    def __post_init__(self) -> None:
        self._tree, self._parts = str(self.version.paths.tree), str(self.version.paths.parts)
        self.transients = Transients(self.context.settings.transient_limit)
        self.packing = VersionPacking(self.version, self.space, self.context)
        self.proofs = Proofs(self.version, self.context)

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
        """Return where a whole file lies: a string, since to make a Path takes 10 us, of each cold file."""
        return f"{self._tree}/{self.version.manifest.path_of(entry)}"

    async def chunk(
        self,
        entry: Entry,
        chunk: int,
        *,
        admits: bool,
        slot: Slot,
        arrived: ArrivedInPart,
        ahead: Callable[[], int],
    ) -> None:
        """Bring a piece of a large file. Raises SidecarError.

        ``admits``: it may be kept, should its part have been dropped. ``arrived``: told how far it has come. ``ahead``:
        asked, when it is its turn, for how many bytes behind it are wanted next.
        """
        if self.version.states[entry.ino] == State.HERE:  # other nodes gave the rest meanwhile, and it is proven
            return
        part = self.version.parts.get(entry.ino) or self.new_part(entry, kept=admits)
        await self._take_back(part, chunk)
        if not part.chunks[chunk]:
            offset, length = chunk_span(entry.size, chunk)
            piece = self._piece(entry, str(part.path))._replace(offset=offset, length=length)
            fetched = await self._get_chunk(piece, part, slot, arrived, ahead)
            part.etag_may_be_md5 = fetched.etag_may_be_md5
            part.sums[chunk] = bytes.fromhex(fetched.crc64nvme)
            self._compare(part, chunk)
            if part.kept:
                await in_thread(part.mark, chunk)
            else:
                part.mark(chunk)
            self.version.arrivals.came()

    async def read_ahead(self, entry: Entry) -> None:
        """Read what is here of a file of which other nodes give pieces, so that it is soon proven once it is whole."""
        part, proof = self.version.parts.get(entry.ino), await self.proofs.of(entry)
        if part is not None and part.held and proof is not None and proof.algorithm != CRC64NVME:
            await self._fronts.advance(part, proof.algorithm)

    async def settle(self, entry: Entry) -> bool:
        """Move a part that has all of its chunks into the tree, after one has come.

        Return whether it is only read through.

        Raises CorruptBody, and then none is left.
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
        """Have no other node's word of a chunk stand, nor its bytes come any more: the source is asked for it."""
        part.take_back(chunk)
        if (incoming := part.incoming.get(chunk)) is not None:
            incoming.cancel()
            await asyncio.wait([incoming])  # for a write to the disk at most
            part.take_back(chunk)

    def _compare(self, part: PartFile, chunk: int) -> None:
        """Find out who gave a wrong chunk, once it is known what is right."""
        givers = self.context.givers
        for giver, passed_on in part.found_wrong(chunk):
            (givers.passed_on_wrong_piece if passed_on else givers.gave_wrong_piece)(giver)
            self.context.telemetry.add(PEER_WRONG)

    def new_part(self, entry: Entry, *, kept: bool) -> PartFile:
        """Begin a part, where the chunks of a large file go. Raises DiskFull or CacheDiskFailed."""
        part = new_part(self._folder(kept=kept), entry.ino, entry.size, kept=kept)
        self.version.add_part(part)
        return part

    def drop_surplus(self, busy: Collection[int]) -> None:
        """Drop what was read through and is beyond the limit; not the parts of inodes in ``busy``.

        Blocks for a moment.
        """
        for ino in self.transients.surplus(busy):
            self.drop(self.version.parts[ino])

    def drop(self, part: PartFile) -> None:
        """Drop what was read through, or cannot be gone on with. Blocks for a moment."""
        if self.version.parts.get(part.ino) is part:
            self.transients.release(part.ino)
            self._fronts.forget(part.ino)
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
            self._judge(piece.key, entry.etag, fetched.md5)
        return fetched.published

    async def _get_chunk(
        self, piece: Piece, part: PartFile, slot: Slot, arrived: ArrivedInPart, ahead: Callable[[], int]
    ) -> Fetched:
        counted = NewBytes(self._arrived)

        def told(here: int) -> None:
            counted.come_to(here)
            arrived(part, here)

        try:
            async with slot:
                return await self._ask(piece._replace(ahead=ahead()), told)
        except CacheDiskFailed:
            if not is_there(part.path):  # someone deleted it: the next attempt begins anew
                self.drop(part)
            raise

    def _arrived(self, size: int) -> None:
        self.context.telemetry.arrived(size)
        self.context.settings.pipeline.arrived(size)

    def _piece(self, entry: Entry, into: str) -> Piece:
        key = self.version.manifest.path_of(entry)
        return Piece(
            key, entry.etag, entry.version_id, 0, entry.size, into, "", entry.size, entry.mtime_ns, hashing=False
        )

    async def _get(self, piece: Piece, slot: Slot, arrived: Arrived) -> Fetched:
        async with slot:
            return await self._ask(piece, arrived)

    async def _ask(self, piece: Piece, arrived: Arrived) -> Fetched:
        for source in self.context.sources:
            if (fetched := await source.fetch(piece, arrived)) is not None:
                return fetched
        raise InternalError(f"no source has {piece.key}")

    def _folder(self, *, kept: bool) -> Path:
        return self.version.paths.parts if kept else self.space.transient_folder()

    async def _promote(self, entry: Entry, part: PartFile) -> None:
        """Check a large file that is whole, and move it into the tree."""
        part.promoting = True
        try:
            if not part.held:
                await in_thread(self._check_part, entry, part, await self.proofs.stated(entry))
            elif not await self._prove(entry, part):
                part.doubt(self.context.givers.most_suspect([part.given[chunk][0] for chunk in part.held]))
                return
            if not part.complete:  # a reader asked for what was held: it comes from the source now
                return
            for chunk in tuple(part.replaced):
                self._compare(part, chunk)
            target, knobs = str(self.version.tree_path(entry)), self.packing.wanted(entry)
            size = await self.packing.keep(entry, str(part.path), target, knobs)
        except CorruptBody:
            self._fronts.forget(entry.ino)
            self.proofs.forget(entry)
            self.version.remove_part(part)
            await in_thread(part.drop)
            raise
        finally:
            part.promoting = False
        self.version.remove_part(part)
        self._fronts.forget(entry.ino)
        await self.note(entry, size)
        await in_thread(part.drop)

    async def _prove(self, entry: Entry, part: PartFile) -> bool:
        """Tell whether a file of which other nodes gave pieces is what the source says: strictly, unlike its own."""
        proof = await self.proofs.of(entry)
        if proof is None:
            return False
        arrived = part.crc64nvme() if proof.algorithm == CRC64NVME else None
        return proof.value == (arrived or await self._fronts.of(part, proof.algorithm))

    def _check_part(self, entry: Entry, part: PartFile, stated: Checksum | None) -> None:
        """Check it, in a thread. Raises CorruptBody."""
        target = self.version.tree_path(entry)
        if stated is not None:
            arrived = part.crc64nvme() if stated.algorithm == CRC64NVME else None
            check(target.name, stated, arrived or file_digest(part.path, stated.algorithm))
        elif part.etag_may_be_md5 and self.version.trust.worth_hashing(entry.etag):
            self._judge(target.name, entry.etag, file_digest(part.path, "md5").hex())

    async def note(self, entry: Entry, size: int) -> None:
        """Note that a file is whole here; ``size``: of its compressed copy, where that is kept in its place."""
        self.proofs.forget(entry)
        await self.packing.note(entry, size)
        self.version.arrivals.came()
        if self.version.here_files == self.version.manifest.info.files:
            self.context.changed()

    def _hold(self, part: PartFile) -> None:
        """Keep what was read through until ``drop_surplus`` lets go of it."""
        if self.version.parts.get(part.ino) is None:
            self.version.add_part(part)
        self.transients.hold(part.ino, part.bytes_here, part.size)

    def _judge(self, path: str, etag: str, md5: str) -> None:
        """Compare a MD5 with the ETag, perhaps in a thread.

        ``trust`` is replaced whole, and a lost observation is made again.
        """
        keep, self.version.trust = self.version.trust.judge(etag, md5)
        if not keep:
            raise CorruptBody(
                f"{path}: the body's MD5 is {md5} where the listing says {etag}: it was spoilt on the way"
            )

"""Proof of a file from another node: the source's checksum, requested once a file.

Only a cryptographic hash proves bytes against a malicious node. A CRC shows damage on the way from the source.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from stoker_sidecar.errors import CacheDiskFailed, CorruptBody, SourceError
from stoker_sidecar.fetcher.download.context import DownloadContext
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.parts import PartFile, chunk_span, is_whole
from stoker_sidecar.fetcher.sources.piece_sources import StorePieceSource
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.store.core.object_checksum import CRC64NVME, Checksum, Digest, check, parse_multipart_etag
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import PEER_WRONG
from stoker_sidecar.worker.files import digest_file, file_digest
from stoker_sidecar.worker.transfer import Piece

_READ = 2**20


@dataclass(eq=False)
class _Front:
    """The digest of the first ``chunks`` of a file."""

    part: PartFile
    proof: Checksum
    digest: Digest
    chunks: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class FrontDigests:
    """Digests of one version's partial files, by inode. One event loop uses it."""

    def __init__(self) -> None:
        self._fronts: dict[int, _Front] = {}

    async def advance(self, part: PartFile, proof: Checksum) -> None:
        """Advance the digest over successive pieces. Unreadable pieces are read again in the end."""
        front = self._front(part, proof)
        async with front.lock:
            try:
                while not part.taken_back and front.chunks < len(part.chunks) and part.has(front.chunks):
                    await in_thread(_take, front)
            except CacheDiskFailed:
                self.forget(part.ino)

    async def of(self, part: PartFile, proof: Checksum) -> bytes:
        """Return the digest of a file whose pieces are all here. Raises CacheDiskFailed.

        If a piece was fetched again, the bytes that were digested may be outdated. The whole file is then read again.
        """
        front = self._front(part, proof)
        await self.advance(part, proof)
        if front.chunks == len(part.chunks) and not part.taken_back:
            return front.digest.digest()
        return await in_thread(digest_file, part.path, proof.new_digest())

    def forget(self, ino: int) -> None:
        """Forget a file that is whole, or given up."""
        self._fronts.pop(ino, None)

    def _front(self, part: PartFile, proof: Checksum) -> _Front:
        front = self._fronts.get(part.ino)
        if front is None or front.part is not part or front.proof != proof:
            front = self._fronts[part.ino] = _Front(part, proof, proof.new_digest())
        return front


def _take(front: _Front) -> None:
    """Read the next piece into the digest. Blocks. Raises CacheDiskFailed."""
    offset, left = chunk_span(front.part.size, front.chunks)
    with disk_errors(front.part.path.name), front.part.path.open("rb", buffering=0) as file:
        while left:
            block = os.pread(file.fileno(), min(_READ, left), offset)
            if not block:
                raise CacheDiskFailed(f"{front.part.path.name} is shorter than it was")
            front.digest.update(block)
            offset, left = offset + len(block), left - len(block)
    front.chunks += 1


_Question = Callable[[StorePieceSource, Piece], Awaitable[Checksum | None]]


@dataclass
class Proofs:
    """The checksums of one version's files. A file's is kept until the file is whole."""

    version: CachedVersion
    context: DownloadContext
    _stated: "dict[int, asyncio.Task[Checksum | None]]" = field(default_factory=dict)
    _multipart: "dict[int, asyncio.Task[Checksum | None]]" = field(default_factory=dict)
    _multipart_matched: bool = False  # a multipart ETag of this version was the MD5 of parts
    _multipart_refuted: bool = False  # the source's own bytes differed, before any ETag matched

    async def of(self, entry: Entry) -> Checksum | None:
        """Return the checksum that bytes of another node must match: the ETag's MD5, or a hash from the source.

        None: nothing can prove them. Small files cause no request, because a fetch is as fast.
        """
        if self.version.trust.worth_hashing(entry.etag):
            return Checksum("md5", bytes.fromhex(entry.etag))
        if is_whole(entry.size):
            return None
        proof = await self.multipart(entry)
        if proof is None and (not self._is_multipart(entry) or self.context.checksums_prove()):
            proof = await self.stated(entry)
        return proof if proof is not None and self._proves(proof) else None

    async def stated(self, entry: Entry) -> Checksum | None:
        """Return the source's checksum of a file. A source that refuses or fails counts as one without checksums."""
        return await self._once(self._stated, entry, lambda source, piece: source.checksum(piece))

    async def multipart(self, entry: Entry) -> Checksum | None:
        """Return the MD5 of parts that a file's ETag states; None: it states none, or this source's ETags are none."""
        if self._multipart_refuted or not self._is_multipart(entry):
            return None
        return await self._once(self._multipart, entry, lambda source, piece: source.multipart_checksum(piece))

    def known_multipart(self, entry: Entry) -> Checksum | None:
        """Return the same if it was asked for already."""
        asking = self._multipart.get(entry.ino)
        return asking.result() if asking is not None and asking.done() and not asking.cancelled() else None

    def matched(self, proof: Checksum) -> None:
        """Note that bytes matched a proof."""
        self._multipart_matched |= proof.part_size > 0

    def differed(self, proof: Checksum) -> None:
        """Note that the source's own bytes differ from a proof.

        Until one multipart ETag of this version has matched, that shows that these ETags are no MD5s.
        """
        self._multipart_refuted |= proof.part_size > 0 and not self._multipart_matched

    def is_certain(self, proof: Checksum) -> bool:
        """Return True if bytes that differ are wrong, since an ETag of this version was an MD5 before."""
        if proof.part_size:
            return self._multipart_matched
        return proof.algorithm != "md5" or self.version.trust.proven

    def forget(self, entry: Entry) -> None:
        """Forget it, once the file is whole or given up."""
        for asked in (self._stated, self._multipart):
            asked.pop(entry.ino, None)

    async def close(self) -> None:
        """Cancel all requests."""
        asking = [*self._stated.values(), *self._multipart.values()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._stated.clear()
        self._multipart.clear()

    def _proves(self, proof: Checksum) -> bool:
        return proof.is_cryptographic or self.context.checksums_prove()

    def _is_multipart(self, entry: Entry) -> bool:
        return parse_multipart_etag(entry.etag) is not None

    async def _once(
        self, asked: "dict[int, asyncio.Task[Checksum | None]]", entry: Entry, question: _Question
    ) -> Checksum | None:
        asking = asked.get(entry.ino)
        if asking is None:
            asking = asked[entry.ino] = asyncio.create_task(self._ask(asked, entry, question))
        return await asyncio.shield(asking)

    async def _ask(
        self, asked: "dict[int, asyncio.Task[Checksum | None]]", entry: Entry, question: _Question
    ) -> Checksum | None:
        key = self.version.manifest.path_of(entry)
        piece = Piece(
            key, entry.etag, entry.version_id, 0, entry.size, "", "", entry.size, entry.mtime_ns, hashing=False
        )
        try:
            return await self.context.settings.retry(partial(question, self.context.source, piece))
        except SourceError:  # it may answer the next time
            asked.pop(entry.ino, None)
        return None


@dataclass
class PartChecks:
    """The checks of one version's files."""

    version: CachedVersion
    context: DownloadContext
    proofs: Proofs
    fronts: FrontDigests = field(default_factory=FrontDigests)

    async def read_ahead(self, entry: Entry) -> None:
        """Hash the first pieces of a file with pieces from other nodes, so that its proof is fast at the end."""
        part, proof = self.version.parts.get(entry.ino), await self.proofs.of(entry)
        if part is not None and part.held and proof is not None and proof.algorithm != CRC64NVME:
            await self.fronts.advance(part, proof)

    async def compare(self, part: PartFile, chunk: int) -> None:
        """Blame the nodes that gave a chunk other than the right one, which is here. Raises CacheDiskFailed."""
        givers = self.context.givers
        doubted = chunk in part.replaced  # it is read back
        for giver, passed_on in await in_thread(part.found_wrong, chunk) if doubted else part.found_wrong(chunk):
            (givers.passed_on_wrong_piece if passed_on else givers.gave_wrong_piece)(giver)
            self.context.telemetry.add(PEER_WRONG)

    async def prove(self, entry: Entry, part: PartFile) -> bool:
        """Return True if a proof of the source matches a file with pieces from other nodes."""
        proof = await self.proofs.of(entry)
        if proof is None:
            return False
        arrived = part.crc64nvme() if proof.algorithm == CRC64NVME else None
        if proof.value != (arrived or await self.fronts.of(part, proof)):
            return False
        self.proofs.matched(proof)
        return True

    async def doubt(self, part: PartFile) -> None:
        """Drop the most suspect node's held pieces of a file that is wrong as a whole. Raises CacheDiskFailed."""
        if part.held:
            gift = self.context.givers.most_suspect([part.given[chunk][0] for chunk in part.held])
            part.doubt(gift, await in_thread(part.sha256_of, part.held_from(gift)))

    async def check_from_source(self, entry: Entry, part: PartFile) -> None:
        """Check a file whose pieces all came from the source. Raises CorruptBody.

        A known MD5 of parts saves a request.
        """
        proof = self.proofs.known_multipart(entry)
        if proof is not None and await self.fronts.of(part, proof) == proof.value:
            self.proofs.matched(proof)
            return
        await in_thread(self._check_part, entry, part, await self.proofs.stated(entry))
        if proof is not None:
            self.proofs.differed(proof)

    def _check_part(self, entry: Entry, part: PartFile, stated: Checksum | None) -> None:
        """Check it. Blocks. Raises CorruptBody."""
        target = self.version.tree_path(entry)
        if stated is not None:
            arrived = part.crc64nvme() if stated.algorithm == CRC64NVME else None
            check(target.name, stated, arrived or file_digest(part.path, stated.algorithm))
        elif part.etag_may_be_md5 and self.version.trust.worth_hashing(entry.etag):
            self.judge(target.name, entry.etag, file_digest(part.path, "md5").hex())

    def judge(self, path: str, etag: str, md5: str) -> None:
        """Compare an MD5 with the ETag. Raises CorruptBody.

        Threads may call it: ``trust`` is replaced as a whole, and a lost observation is made again.
        """
        keep, self.version.trust = self.version.trust.judge(etag, md5)
        if not keep:
            raise CorruptBody(
                f"{path}: the body's MD5 is {md5} where the listing says {etag}: it was spoilt on the way"
            )

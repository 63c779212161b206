"""Moves a piece of an object from the store to the disk, and refuses what is short, long or spoilt."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.store.base import SMALL, Body, ObjectStore
from stoker_sidecar.store.core.object_checksum import CRC64NVME, Digest, check, new_digest
from stoker_sidecar.threads import in_thread
from stoker_sidecar.worker.files import FileWriter, publish, write_whole
from stoker_sidecar.worker.progress import Arrived, PieceProgress


class Piece(NamedTuple):
    """Bytes [offset, offset + length) of an object, written to the same place of the file ``into``.

    ``target``: the file is whole with this piece, and gets this name, ``size`` checked and ``mtime_ns`` set; empty: it
    stays where it is. ``hashing``: the body's MD5 is wanted, unless the source states a checksum, and when it is not
    the ETag the file does not get its name. ``ahead``: bytes of the object behind it that are wanted next, most likely.
    """

    key: str  # path below the source's folder
    etag: str
    version_id: str
    offset: int
    length: int
    into: str
    target: str
    size: int
    mtime_ns: int
    hashing: bool
    ahead: int = 0


def told_by_its_end(piece: Piece) -> bool:
    """Tell whether a piece arrives in one step: that it is done says that all of it is on the disk."""
    return piece.length <= SMALL


class Fetched(NamedTuple):
    """What is known of a piece that is on the disk. ``published``: and has its name.

    ``md5``: hexadecimal; empty when it was not taken. ``crc64nvme``: hexadecimal, of a piece that is not the whole
    file; empty for one that is.
    """

    published: bool
    md5: str
    etag_may_be_md5: bool
    crc64nvme: str = ""


async def fetch_piece(store: ObjectStore, piece: Piece, arrived: Arrived, progress: PieceProgress) -> Fetched:
    """GET a piece into its file; ``arrived`` is told how far its bytes are on the disk, of threads by ``progress``.

    Raises SourceError, CorruptBody, DiskFull, CacheDiskFailed; the file is then the caller's to delete.
    """
    whole = piece.length == piece.size
    if whole and 0 < piece.length <= SMALL:
        return await _small_file(store, piece, arrived)
    file = FileWriter(piece.into, piece.offset, creating=whole)
    try:
        if piece.length == 0:
            file.write(b"")
            return _end(file, piece, None)
        async with store.get_range(
            piece.key,
            piece.offset,
            piece.length,
            if_match=piece.etag,
            version_id=piece.version_id,
            whole=whole,
            ahead=piece.ahead,
        ) as body:
            file.digest = _wanted_digest(piece, body)
            if piece.length <= SMALL:
                return await _small(body, file, piece, arrived)
            return await _large(body, file, piece, arrived, progress)
    finally:
        file.close()


async def _small_file(store: ObjectStore, piece: Piece, arrived: Arrived) -> Fetched:
    """GET a whole small file; it is in memory when it is checked, and written in one step only if it is right."""
    collected = _CollectedBody(piece)
    async with store.get_range(
        piece.key, 0, piece.length, if_match=piece.etag, version_id=piece.version_id, whole=True
    ) as body:
        await body.stream(collected.write)
        collected.check_end()
        digest = _wanted_digest(piece, body)
    md5 = _checked_md5(piece, body, digest, collected.pieces)
    good = md5 in ("", piece.etag)
    write_whole(piece.into, collected.pieces, piece.target if good else "", piece)
    arrived(piece.length)
    return Fetched(good and bool(piece.target), md5, body.etag_may_be_md5)


def _checked_md5(piece: Piece, body: Body, digest: Digest | None, data: Sequence[bytes]) -> str:
    """Check a whole body by what the server states of it; else return its MD5 if wanted. Raises CorruptBody."""
    if digest is None:
        return ""
    for one in data:
        digest.update(one)
    if body.checksum is None:
        return digest.digest().hex()
    check(piece.key, body.checksum, digest.digest())
    return ""


async def _small(body: Body, file: FileWriter, piece: Piece, arrived: Arrived) -> Fetched:
    bounded = _BoundedWriter(file, piece, lambda here: None)
    await body.stream(bounded.write)
    bounded.check_end()
    fetched = _end(file, piece, body)
    arrived(piece.length)
    return fetched


async def _large(body: Body, file: FileWriter, piece: Piece, arrived: Arrived, progress: PieceProgress) -> Fetched:
    bounded = _BoundedWriter(file, piece, progress.begin(arrived))
    try:
        await body.stream(bounded.write)
    finally:
        progress.end(bounded.told)
    bounded.check_end()
    if piece.length < piece.size:  # it gets no name yet, so nothing is left that a disk could hold up
        return _end(file, piece, body)
    return await in_thread(_end, file, piece, body)


@dataclass
class _BoundedWriter:
    """Lets no more bytes through to the file than were asked for.

    ``told``: how much was written so far, perhaps in a thread.
    """

    file: FileWriter
    piece: Piece
    told: Arrived
    passed: int = 0

    def write(self, data: bytes | memoryview) -> None:
        """Pass bytes on. Raises CorruptBody, DiskFull, CacheDiskFailed."""
        if self.passed + len(data) > self.piece.length:
            raise _unlike(self.piece, "more")
        self.file.write(data)
        self.passed += len(data)
        self.told(self.passed)

    def check_end(self) -> None:
        """Check that all has come. Raises CorruptBody when bytes are missing."""
        if self.passed != self.piece.length:
            raise _unlike(self.piece, self.passed)


class _CollectedBody:
    """The body of a small file in memory; no more of it than was asked for."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._passed = 0
        self.pieces: list[bytes] = []

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes, and a copy of what is not the caller's to give. Raises CorruptBody."""
        self._passed += len(data)
        if self._passed > self._piece.length:
            raise _unlike(self._piece, "more")
        self.pieces.append(bytes(data))

    def check_end(self) -> None:
        """Check that all has come. Raises CorruptBody when bytes are missing."""
        if self._passed != self._piece.length:
            raise _unlike(self._piece, self._passed)


def _unlike(piece: Piece, sent: int | str) -> CorruptBody:
    return CorruptBody(f"{piece.key}: the server sent {sent} where {piece.length} bytes were asked for")


def _wanted_digest(piece: Piece, body: Body) -> Digest | None:
    """Choose a digest: one that the server states is of these bytes for certain; an ETag just may be their MD5."""
    if piece.length < piece.size:
        return new_digest(CRC64NVME)  # 0.03 s a GB, which spares reading the file again when it is whole
    if body.checksum is not None:
        return new_digest(body.checksum.algorithm)
    return new_digest("md5") if piece.hashing and body.etag_may_be_md5 else None


def _end(file: FileWriter, piece: Piece, body: Body | None) -> Fetched:
    file.close()
    taken = file.digest.digest() if file.digest is not None else b""
    may_be_md5 = body is not None and body.etag_may_be_md5
    if piece.length < piece.size:
        return Fetched(False, "", may_be_md5, taken.hex())
    stated = body.checksum if body is not None else None
    if stated is not None:
        check(piece.key, stated, taken)
    md5 = taken.hex() if stated is None else ""
    good = md5 in ("", piece.etag)
    if good and piece.target:
        publish(piece.into, piece.target, piece)
    return Fetched(good and bool(piece.target), md5, may_be_md5)


def remove_quietly(path: Path) -> None:
    """Delete what is left of a failed attempt, as far as the disk lets go of it; the next start would clear it too."""
    with suppress(OSError):
        path.unlink()

"""Transfers a piece of an object from the store to the disk. Rejects short, long and corrupt bodies.

The fetcher gets progress reports of large pieces, at a rate that costs almost nothing.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.store.base import SMALL, Body, ObjectStore
from stoker_sidecar.store.core.object_checksum import CRC64NVME, Digest, check, new_digest
from stoker_sidecar.threads import in_thread
from stoker_sidecar.worker.files import FileWriter, publish, write_whole

# Called with the number of bytes of a piece, from its start, that are on the disk. Not a sum: a download may restart.
Arrived = Callable[[int], None]

# Seconds of rest after each reported piece, since a report also wakes the fetcher's loop. It delays a reader by 4 ms at
# most, half the time of a chunk at 1 GB/s.
_REST = 0.004


@dataclass(eq=False)
class PieceProgress:
    """Progress of all pieces of one event loop. Reports at once after a rest; otherwise, at the end of the rest."""

    _news: dict[Arrived, tuple[Arrived, int]] = field(default_factory=dict)
    _due: bool = False  # `_tell` is going to run
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, arrived: Arrived) -> Arrived:
        """Return a thread-safe function that makes this event loop call ``arrived`` with a piece's progress."""
        loop = asyncio.get_running_loop()

        def come_to(here: int) -> None:
            with self._lock:
                self._news[come_to] = arrived, here
                wake, self._due = not self._due, True
            if wake:
                loop.call_soon_threadsafe(self._tell)

        return come_to

    def end(self, come_to: Arrived) -> None:
        """Report the remaining progress of a written piece. Call it on the event loop."""
        with self._lock:
            left = self._news.pop(come_to, None)
        if left is not None:
            arrived, here = left
            arrived(here)

    def _tell(self) -> None:
        with self._lock:
            news, self._news = self._news, {}
            self._due = bool(news)
        for arrived, here in news.values():
            arrived(here)
        if news:
            asyncio.get_running_loop().call_later(_REST * len(news), self._tell)


class Piece(NamedTuple):
    """Bytes [offset, offset + length) of an object, to write at the same offset of the file ``into``.

    ``target``: this piece completes the file; check its ``size``, set ``mtime_ns``, and rename it to this name. Empty:
    the file keeps its name. ``hashing``: take the body's MD5, unless the source states a checksum; if it differs from
    the ETag, do not rename the file.
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


def told_by_its_end(piece: Piece) -> bool:
    """Return True if a piece is small and arrives in one step, so that its end is its only progress report."""
    return piece.length <= SMALL


class Fetched(NamedTuple):
    """Result of a piece that is on the disk. ``published``: the file has its final name.

    ``md5``: hexadecimal; empty if it was not taken. ``crc64nvme``: hexadecimal, of a piece that is a part of its file;
    empty for a whole file.
    """

    published: bool
    md5: str
    etag_may_be_md5: bool
    crc64nvme: str = ""


async def fetch_piece(store: ObjectStore, piece: Piece, arrived: Arrived, progress: PieceProgress) -> Fetched:
    """GET a piece into its file. Call ``arrived`` with its bytes on the disk; for a large piece, through ``progress``.

    Raises SourceError, CorruptBody, DiskFull, CacheDiskFailed. The caller then deletes the file.
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
            piece.key, piece.offset, piece.length, if_match=piece.etag, version_id=piece.version_id, whole=whole
        ) as body:
            file.digest = _wanted_digest(piece, body)
            if piece.length <= SMALL:
                return await _small(body, file, piece, arrived)
            return await _large(body, file, piece, arrived, progress)
    finally:
        file.close()


async def _small_file(store: ObjectStore, piece: Piece, arrived: Arrived) -> Fetched:
    """GET a whole small file, check it in memory, and write it in one step."""
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
    """Check a whole body by the server's checksum; without one, return its MD5 if wanted. Raises CorruptBody."""
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
    if piece.length < piece.size:  # it gets no final name here, so no disk operation can block
        return _end(file, piece, body)
    return await in_thread(_end, file, piece, body)


@dataclass
class _BoundedWriter:
    """Passes bytes on to the file, up to the requested length.

    ``told`` is called with the number of bytes written, perhaps in a thread.
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
    """The body of a small file in memory, up to the requested length."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._passed = 0
        self.pieces: list[bytes] = []

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes; copy a memoryview. Raises CorruptBody."""
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
    """Choose a digest. A checksum from the server is surely of these bytes; an ETag only may be their MD5."""
    if piece.length < piece.size:
        return new_digest(CRC64NVME)  # 0.03 s per GB; the complete file need not be read again
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
    """Delete the file of a failed attempt. Ignore errors, since the next start clears such files too."""
    with suppress(OSError):
        path.unlink()

"""Moves one piece of one object from the store to the disk, and refuses what is short, long or spoilt."""

from contextlib import suppress
from functools import partial
from pathlib import Path

from stoker_sidecar.cache.files import Sink, publish
from stoker_sidecar.cache.pieces import Arrived, Fetched, Origin, Piece
from stoker_sidecar.core.object_checksum import Digest, check, new_digest
from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.store.base import Body, ObjectStore
from stoker_sidecar.threads import in_thread

# Bytes held in memory per request before they go to the disk: 32 requests in flight hold 32 MiB at most.
_FLUSH = 1024 * 1024
# The first bytes of a large piece go to the disk sooner, since a reader may wait for just those.
_FIRST_FLUSH = 256 * 1024


class InProcess:
    """A PieceFetcher that does all in this process: for tests, and where one core is all there is."""

    async def fetch(self, origin: Origin, piece: Piece, arrived: Arrived) -> Fetched:
        """See PieceFetcher."""
        return await fetch_piece(await origin.store(), piece, arrived)

    def forget(self, origin: Origin) -> None:
        """The origin closes its store itself."""


async def fetch_piece(store: ObjectStore, piece: Piece, arrived: Arrived) -> Fetched:
    """GET a piece into its file; ``arrived`` is told of bytes that are on the disk.

    Raises SourceError, CorruptBody, DiskFull, CacheDiskFailed; the file is then the caller's to delete.
    """
    whole = piece.length == piece.size
    sink = Sink(Path(piece.into), piece.offset, creating=whole)
    try:
        if piece.length == 0:
            return _end(sink, [], piece, None)
        async with store.get_range(
            piece.key, piece.offset, piece.length, if_match=piece.etag, version_id=piece.version_id, whole=whole
        ) as body:
            sink.digest = _wanted_digest(piece, body)
            rest, flushed = await _pour(body, sink, piece, arrived)
            end = partial(_end, sink, rest, piece, body)
            # A small body goes straight to the page cache: 50 us, where a hop into a thread and back costs 100.
            fetched = end() if flushed == 0 else await in_thread(end)
        arrived(piece.length - flushed)
        return fetched
    finally:
        sink.close()


async def _pour(body: Body, sink: Sink, piece: Piece, arrived: Arrived) -> tuple[list[bytes], int]:
    """The last bytes, and how many were written before."""
    pieces: list[bytes] = []
    held = flushed = 0
    async for data in body.chunks:
        pieces.append(data)
        held += len(data)
        if flushed + held > piece.length:
            break
        if held >= (_FLUSH if flushed else _FIRST_FLUSH):
            await in_thread(sink.write, pieces)
            arrived(held)
            pieces, held, flushed = [], 0, flushed + held
    if flushed + held != piece.length:
        sent = "more" if flushed + held > piece.length else flushed + held
        raise CorruptBody(f"{piece.key}: the server sent {sent} where {piece.length} bytes were asked for")
    return pieces, flushed


def _wanted_digest(piece: Piece, body: Body) -> Digest | None:
    """A checksum that the server states is of these bytes for certain, and cheaper; an ETag just may be their MD5."""
    if body.checksum is not None:
        return new_digest(body.checksum.algorithm)
    return new_digest("md5") if piece.hashing and body.etag_may_be_md5 else None


def _end(sink: Sink, rest: list[bytes], piece: Piece, body: Body | None) -> Fetched:
    sink.write(rest)
    sink.close()
    taken = sink.digest.digest() if sink.digest is not None else b""
    stated = body.checksum if body is not None else None
    if stated is not None:
        check(piece.key, stated, taken)
    md5 = taken.hex() if stated is None else ""
    good = md5 in ("", piece.etag)
    if good and piece.target:
        publish(sink.path, Path(piece.target), piece)
    return Fetched(good and bool(piece.target), md5, body is not None and body.etag_may_be_md5)


def remove_quietly(path: Path) -> None:
    """What is left of a failed attempt, as far as the disk lets go of it; the next start would clear it too."""
    with suppress(OSError):
        path.unlink()

"""Moves one piece of one object from the store to the disk, and refuses what is short, long or spoilt."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.cache.files import Sink
from stoker_sidecar.cache.manifest import Entry
from stoker_sidecar.errors import CorruptBody
from stoker_sidecar.store.base import Body, ObjectStore
from stoker_sidecar.threads import in_thread

# Bytes held in memory per request before they go to the disk: one hop into a thread for a small file, and 32 requests
# in flight hold 32 MiB at most.
_FLUSH = 1024 * 1024


async def download(
    store: ObjectStore,
    path: str,
    entry: Entry,
    span: tuple[int, int],
    sink: Sink,
    arrived: Callable[[int], None],
    finish: Callable[[bool], None],
) -> None:
    """GET ``span`` (offset, length) of ``entry`` into ``sink``, then run ``finish(etag_may_be_md5)`` in the same thread hop.

    ``arrived`` is told of bytes as they come. Raises SourceError, CorruptBody, DiskFull, CacheDiskFailed.
    """
    offset, length = span
    try:
        async with store.get_range(path, offset, length, if_match=entry.etag, version_id=entry.version_id) as body:
            rest = await _pour(body, sink, length, path, arrived)
            await in_thread(_end, sink, rest, finish, body.etag_may_be_md5)
    finally:
        sink.close()


async def _pour(body: Body, sink: Sink, length: int, path: str, arrived: Callable[[int], None]) -> list[bytes]:
    """All but the last pieces are on the disk."""
    pieces: list[bytes] = []
    held = total = 0
    async for piece in body.chunks:
        pieces.append(piece)
        held, total = held + len(piece), total + len(piece)
        arrived(len(piece))
        if total > length:
            break
        if held >= _FLUSH:
            await in_thread(sink.write, pieces)
            pieces, held = [], 0
    if total != length:
        raise CorruptBody(
            f"{path}: the server sent {'more' if total > length else total} where {length} bytes were asked for"
        )
    return pieces


def _end(sink: Sink, pieces: list[bytes], finish: Callable[[bool], None], may_be_md5: bool) -> None:
    sink.write(pieces)
    sink.close()
    finish(may_be_md5)


def remove_quietly(path: Path) -> None:
    """What is left of a failed attempt, as far as the disk lets go of it; the next start would clear it too."""
    with suppress(OSError):
        path.unlink()

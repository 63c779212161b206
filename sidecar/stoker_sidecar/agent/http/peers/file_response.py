"""Responses with files of a version, and limits of uploads to peers."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from aiohttp import web

from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.wire.small_files import MOST_BYTES


def read_small_files(paths: VersionPaths, wanted: Sequence[str]) -> list[bytes | None]:
    """Return the contents of files of the tree. None: the file is missing, or exceeds the total limit. Blocks."""
    found, left = list[bytes | None](), MOST_BYTES
    for path in wanted:
        content = _read(paths, path, left)
        found.append(content)
        left -= len(content or b"")
    return found


def _read(paths: VersionPaths, path: str, most: int) -> bytes | None:
    with suppress(OSError, ValueError):  # not complete here, not a file, or an invalid name
        descriptor = open_file_beneath(paths.root, paths.tree / path)
        try:
            size = os.fstat(descriptor).st_size
            content = os.pread(descriptor, size, 0) if size <= most else b""
            return content if len(content) == size else None
        finally:
            os.close(descriptor)
    return None


BLOCK = 1024 * 1024
# Seconds on top of the transfer time after which the client gives up: see Waits of stoker_sidecar.fetcher.download.
PATIENCE = 10.0
# Awaited before a number of bytes is sent.
Pace = Callable[[int], Awaitable[None]]


async def _at_once(_: int) -> None:
    """Return without a pause."""


async def send_file(
    request: web.Request,
    descriptor: int,
    kind: str = "application/octet-stream",
    *,
    offset: int = 0,
    length: int = -1,
    pace: Pace = _at_once,
    slowest: float = 0.0,
) -> web.StreamResponse:
    """Send an open file; the caller closes the descriptor. ``kind``: its Content-Type.

    ``offset`` and ``length`` in bytes; a length of -1: to the end. ``pace``: awaited with the size of each block before
    it is sent. ``slowest``: least bytes per second, below which the connection is aborted; 0: no limit.
    """
    if length < 0:
        length = os.fstat(descriptor).st_size - offset
    if length <= BLOCK:
        await pace(length)
        return web.Response(body=await read_block(descriptor, length, offset), content_type=kind)
    response = web.StreamResponse(headers={"Content-Type": kind, "Content-Length": str(length)})
    await response.prepare(request)
    sent = 0
    try:
        async with asyncio.timeout(PATIENCE + length / slowest if slowest else None):
            while block := await read_block(descriptor, min(BLOCK, length - sent), offset + sent):
                await pace(len(block))
                await response.write(block)
                sent += len(block)
    except ConnectionError:
        pass  # the client is gone
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    return response


async def read_block(descriptor: int, length: int, offset: int) -> bytes:
    """Read ``length`` bytes, or fewer at the end of the file. Use a thread unless all are in the page cache."""
    buffer = bytearray(length)
    with suppress(OSError):  # not all bytes are cached, or the file system does not support the flag
        if os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT) == length:
            return bytes(buffer)
    return await asyncio.to_thread(os.pread, descriptor, length, offset)


# Burst after an idle time, as seconds at the full rate.
_BURST = 1.0
# Least bytes per second of each of several concurrent uploads.
_SLOWEST = 4_000_000


class UploadLimits(NamedTuple):
    """Upload limits. ``at_once``: files and pieces at a time, to all peers together; 0: no uploads.

    ``bytes_per_second``: 0 for no limit.
    """

    at_once: int = 16
    bytes_per_second: int = 0

    @property
    def served(self) -> int:
        """Number of concurrent uploads. Peers give up on uploads slower than ``_SLOWEST``."""
        most = self.bytes_per_second // _SLOWEST if self.bytes_per_second else self.at_once
        return max(1, min(self.at_once, most))

    @property
    def to_warm(self) -> int:
        """Number of concurrent uploads for warm-ups. One in eight is reserved for waiting readers."""
        return self.served - self.served // 8


class Uploads:
    """Limits uploads to their rate."""

    def __init__(self, limits: UploadLimits) -> None:
        self._rate: Final = limits.bytes_per_second
        self._free_at = 0.0

    def pause(self, size: int, now: float) -> float:
        """Reserve ``size`` bytes. Return the seconds to wait before sending them. ``now``: seconds of any clock."""
        if not self._rate:
            return 0.0
        self._free_at = max(self._free_at, now - _BURST) + size / self._rate
        return max(0.0, self._free_at - now)

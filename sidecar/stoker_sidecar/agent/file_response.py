"""Answers with a file that is open already, whoever owns the folder that it lies in."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web

BLOCK = 1024 * 1024
# Seconds beside what the bytes take, after which who asked gives up: see Waits of stoker_sidecar.fetcher.download.
PATIENCE = 10.0
# Waited for before so many bytes are sent.
Pace = Callable[[int], Awaitable[None]]


async def _at_once(_: int) -> None:
    """Go on at once."""


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
    """Send a file of a descriptor, which stays the caller's to close. ``kind``: its Content-Type.

    ``offset`` and ``length`` in bytes; -1: to its end. ``pace``: waited for before so many bytes are sent. ``slowest``:
    bytes a second at which who asked has to take them, or the connection is broken off; 0: it may take any time.
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
        pass  # who asked has gone away
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    return response


async def read_block(descriptor: int, length: int, offset: int) -> bytes:
    """Read so many bytes, fewer at the end of the file: in a thread, unless they are all in memory."""
    buffer = bytearray(length)
    with suppress(OSError):  # not all are, or this file system cannot tell
        if os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT) == length:
            return bytes(buffer)
    return await asyncio.to_thread(os.pread, descriptor, length, offset)

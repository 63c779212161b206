"""Answers with a file that is open already, whoever owns the folder that it lies in."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from aiohttp import web

_BLOCK = 1024 * 1024


async def _at_once(_: int) -> None:
    """Go on at once."""


async def send_file(
    request: web.Request,
    descriptor: int,
    kind: str = "application/octet-stream",
    *,
    offset: int = 0,
    length: int = -1,
    pace: Callable[[int], Awaitable[None]] = _at_once,
) -> web.StreamResponse:
    """Send a file of a descriptor, which stays the caller's to close. ``kind``: its Content-Type.

    ``offset`` and ``length`` in bytes; -1: to its end. ``pace``: waited for before so many bytes are sent.
    """
    if length < 0:
        length = os.fstat(descriptor).st_size - offset
    if length <= _BLOCK:
        await pace(length)
        return web.Response(body=await asyncio.to_thread(os.pread, descriptor, length, offset), content_type=kind)
    response = web.StreamResponse(headers={"Content-Type": kind, "Content-Length": str(length)})
    await response.prepare(request)
    sent = 0
    while block := await asyncio.to_thread(os.pread, descriptor, min(_BLOCK, length - sent), offset + sent):
        await pace(len(block))
        await response.write(block)
        sent += len(block)
    return response

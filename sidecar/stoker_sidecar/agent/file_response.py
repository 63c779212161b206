"""Answers with a file that is open already, whoever owns the folder that it lies in."""

import asyncio
import os

from aiohttp import web

_BLOCK = 1024 * 1024


async def send_file(
    request: web.Request, descriptor: int, kind: str = "application/octet-stream"
) -> web.StreamResponse:
    """Send the whole file of a descriptor, which stays the caller's to close. ``kind``: its Content-Type."""
    size = os.fstat(descriptor).st_size
    if size <= _BLOCK:
        return web.Response(body=await asyncio.to_thread(os.pread, descriptor, _BLOCK, 0), content_type=kind)
    response = web.StreamResponse(headers={"Content-Type": kind, "Content-Length": str(size)})
    await response.prepare(request)
    sent = 0
    while block := await asyncio.to_thread(os.pread, descriptor, _BLOCK, sent):
        await response.write(block)
        sent += len(block)
    return response

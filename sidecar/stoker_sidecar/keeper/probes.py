"""Answers the kubelet's probes in place of the agent while a keeper waits for its turn: alive, not ready."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

_log = logging.getLogger("stoker.keeper")
_ALIVE = "200 OK", "waiting: the sidecar of another pod serves this node\n"
_NOT_READY = "503 Service Unavailable", "another pod's sidecar serves this node\n"
_WITHIN = 5.0


def reply_to(request_line: bytes) -> bytes:
    """The response to one GET: healthy, ready never. Pure."""
    status, body = _ALIVE if request_line.split()[1:2] == [b"/healthz"] else _NOT_READY
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


@contextlib.asynccontextmanager
async def answering(port: int) -> AsyncIterator[None]:
    """While inside. A port that cannot be had is logged: the kubelet then starts the container anew, which is no harm."""
    try:
        server = await asyncio.start_server(_answer, port=port)
    except OSError as error:
        _log.warning("the kubelet's probes are not answered while this keeper waits: %s", error)
        yield
        return
    async with server:
        yield


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(_WITHIN):
            line = await reader.readline()
            while (await reader.readline()).strip():
                pass
            writer.write(reply_to(line))
            await writer.drain()
    except (OSError, ValueError) as error:  # TimeoutError is an OSError; ValueError: a line beyond the stream's limit
        _log.debug("a probe was not answered: %s", error)
    finally:
        writer.close()

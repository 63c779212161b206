"""A server on loopback that answers GETs of ranges, and notes what it was asked for."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

PIECE = 1024 * 1024
CONTENT = os.urandom(4 * PIECE)
_RANGE = re.compile(r"range: bytes=(\d+)-(\d+)", re.IGNORECASE)


class RangeServer:
    """A server that answers every GET with a range of CONTENT, of which no more than ``most`` bytes come.

    ``asked``: the ranges, as offset and length. ``closed``: connections that were.
    """

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[tuple[int, int]] = []
        self.connections = 0
        self.closed = 0
        self.most = len(CONTENT)
        self.waits = asyncio.Event()  # for ever, where it does not answer more than ``most``
        self.breaks_off = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection."""
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                found = _RANGE.search(head)
                first, last = (int(found[1]), int(found[2])) if found else (0, len(CONTENT) - 1)
                self.asked.append((first, last + 1 - first))
                span = f"Content-Range: bytes {first}-{last}/{len(CONTENT)}\r\nContent-Length: {last + 1 - first}"
                writer.write(f"HTTP/1.1 206 Partial\r\nETag: e\r\n{span}\r\n\r\n".encode())
                writer.write(CONTENT[first : min(last + 1, first + self.most)])
                await writer.drain()
                if last + 1 - first > self.most:
                    if not self.breaks_off:
                        await self.waits.wait()
                    break
        writer.close()
        self.closed += 1


@asynccontextmanager
async def range_server() -> AsyncIterator[RangeServer]:
    """Serve while inside."""
    served = RangeServer()
    listening = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    served.address = f"{host}:{port}"
    yield served
    served.waits.set()
    listening.close()

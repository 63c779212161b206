"""A TCP proxy that makes a local server as slow as a distant one: profiles P20 and PBW of the benchmark plan."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from bench.errors import BenchError

_READ_BYTES = 64 * 1024


@dataclass(frozen=True)
class Profile:
    """``delay``: seconds before a request is passed on. ``rate``: bytes a second of all answers together; 0: no limit."""

    delay: float
    rate: float = 0.0


PROFILES = {"P20": Profile(0.020), "PBW": Profile(0.005, 200e6 / 8)}


class Link:
    """The shared line of all answers: says how long a piece must wait. Pure but for the clock that is passed in."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    def wait(self, size: int, now: float) -> float:
        """Seconds until ``size`` more bytes have gone through the line."""
        if not self._rate:
            return 0.0
        self._free_at = max(self._free_at, now) + size / self._rate
        return self._free_at - now


class DelayingProxy:
    """A context manager: the proxy in a process of its own, so that its work is nobody's figure."""

    def __init__(self, port: int, profile: str) -> None:
        self._command = [sys.executable, "-m", "bench.proxy", str(port), profile]
        self._process: subprocess.Popen[str] | None = None
        self.endpoint = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None, "made with a pipe"
        port = self._process.stdout.readline().strip()
        if not port:
            raise BenchError("the delaying proxy ended at once; it said why on standard error")
        self.endpoint = f"http://127.0.0.1:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


async def _requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """A client sends its next request after the last answer, and a GET is one piece: a delay a piece is one a GET."""
    while piece := await reader.read(_READ_BYTES):
        await asyncio.sleep(delay)
        writer.write(piece)
        await writer.drain()


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link) -> None:
    clock = asyncio.get_running_loop().time
    while piece := await reader.read(_READ_BYTES):
        await asyncio.sleep(link.wait(len(piece), clock()))
        writer.write(piece)
        await writer.drain()


async def _serve(port: int, profile: Profile) -> None:
    link = Link(profile.rate)
    connections: set[asyncio.Task[None] | None] = set()  # the event loop itself holds its tasks weakly

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        try:
            await _relay(reader, writer, port, profile.delay, link)
        finally:
            connections.discard(asyncio.current_task())
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


async def _relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, delay: float, link: Link
) -> None:
    """Until one side hangs up, which some workloads do in the middle by killing their client."""
    upstream, server = await asyncio.open_connection("127.0.0.1", port)
    ways = [
        asyncio.create_task(_requests(reader, server, delay)),
        asyncio.create_task(_answers(upstream, writer, link)),
    ]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), PROFILES[sys.argv[2]]))

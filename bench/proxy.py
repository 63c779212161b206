"""A TCP proxy that makes a local server as slow as a distant one: profiles P20 and PBW of the benchmark plan."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast

import uvloop

from bench.errors import BenchError


@dataclass(frozen=True)
class Profile:
    """How far away the server is: seconds before a request is passed on, and bytes a second of all answers (0: any)."""

    delay: float
    rate: float = 0.0


PROFILES = {
    "P20": Profile(0.020),
    "PBW": Profile(0.005, 200e6 / 8),
    "P100": Profile(0.100),
    "P500": Profile(0.500, 40e6),  # a source that is far away, and has few bytes a second for each request
}


class Link:
    """The line that all answers share: it says how long a piece must wait. Pure: the clock is passed in."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    def wait(self, size: int, now: float) -> float:
        """Return the seconds until ``size`` more bytes have gone through the line."""
        if not self._rate:
            return 0.0
        self._free_at = max(self._free_at, now) + size / self._rate
        return self._free_at - now


class DelayingProxy:
    """The proxy in a process of its own, as a context manager: its work is in nobody's figure."""

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
            self._process.communicate()  # which closes the pipe, too


Wait = Callable[[int], float]  # bytes of a piece: seconds until it may be passed on


class _End(asyncio.Protocol):
    """One end of a relayed connection: what arrives here goes to ``other`` after a wait, in which nothing more is read.

    No task, no stream, and libuv's loop: the CPU that it takes is taken from the programs that are measured.
    """

    def __init__(self, wait: Wait) -> None:
        self.other: _End = self  # until the connection to the server stands
        self._wait = wait
        self._loop = asyncio.get_running_loop()
        self._full = False  # this end takes no more for now

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if (seconds := self._wait(len(data))) > 0:
            self.transport.pause_reading()
            self._loop.call_later(seconds, self._pass_on, data)
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def _pass_on(self, data: bytes) -> None:
        if self.transport.is_closing() or self.other.transport.is_closing():
            return  # uvloop would raise: some workloads kill their client in the middle
        self.other.transport.write(data)
        if not self.other._full:
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self._full = True
        if not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        if not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end too, and log nothing: some workloads kill their client in the middle."""
        self.other.transport.close()


class _Client(_End):
    """The client's end: connects to the server when the client has come.

    A client sends its next request after the last answer, and a GET is one piece: a delay a piece is one a GET.
    """

    def __init__(self, port: int, profile: Profile, link: Link) -> None:
        super().__init__(lambda size: profile.delay)
        self._port = port
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self._connecting = self._loop.create_task(self._connect())  # the event loop itself holds its tasks weakly

    async def _connect(self) -> None:
        server = _End(lambda size: self._link.wait(size, self._loop.time()))
        server.other = self
        await self._loop.create_connection(lambda: server, "127.0.0.1", self._port)
        self.other = server
        if self.transport.is_closing():
            server.transport.close()
        else:
            self.transport.resume_reading()


async def _serve(port: int, profile: Profile) -> None:
    link, loop = Link(profile.rate), asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Client(port, profile, link), "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), PROFILES[sys.argv[2]]))

"""A TCP proxy that makes a local server as slow as a distant one: profiles P20 and PBW of the benchmark plan.

``python -m bench.proxy PORT PROFILE [ADDRESS [LISTENING_PORT]]``: ADDRESS is that of the server and the proxy. Without
LISTENING_PORT it takes a free one. It prints its port.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import uvloop

from bench.errors import BenchError


@dataclass(frozen=True)
class Profile:
    """The distance of the server: seconds of delay per request, and bytes per second of all answers (0: no limit)."""

    delay: float
    rate: float = 0.0


PROFILES = {
    "P1": Profile(0.001),
    "P20": Profile(0.020),
    "P50": Profile(0.050),  # of the demo: another region
    "P100": Profile(0.100),
    "PBW": Profile(0.005, 200e6 / 8),
    "P500": Profile(0.500, 40e6),  # a distant source with a low rate per request
}


class Link:
    """The line that all answers share. It returns the wait of each piece. Pure: the caller passes the time."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    def wait(self, size: int, now: float) -> float:
        """Return the seconds until ``size`` more bytes have passed the line."""
        if not self._rate:
            return 0.0
        self._free_at = max(self._free_at, now) + size / self._rate
        return self._free_at - now


@contextmanager
def delaying_proxy(port: int, profile: str) -> Iterator[str]:
    """Run the proxy of a local port in a separate process, whose cost is in no figure. Yield its URL."""
    command = [sys.executable, "-m", "bench.proxy", str(port), profile]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "made with a pipe"
        try:
            own_port = process.stdout.readline().strip()
            if not own_port:
                raise BenchError("the delaying proxy ended at once; it said why on standard error")
            yield f"http://127.0.0.1:{own_port}"
        finally:
            process.kill()


Wait = Callable[[int], float]  # bytes of a piece: seconds until it may be forwarded


class _End(asyncio.Protocol):
    """One end of a relayed connection. Received data goes to ``other`` after a wait, during which no data is read.

    It uses neither tasks nor streams, and libuv's loop, because its CPU time is lost for the measured programs.
    """

    def __init__(self, wait: Wait) -> None:
        self.other: _End = self  # until the connection to the server is open
        self._wait = wait
        self._loop = asyncio.get_running_loop()
        self._full = False  # this end is not writable now

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
            return  # uvloop would raise: some workloads kill their client during a transfer
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
        """Close the peer connection too, without a log: some workloads kill their client during a transfer."""
        self.other.transport.close()


class _Client(_End):
    """The client's end. It connects to the server when a client connects.

    A client sends its next request after the last answer, and a GET is one piece. One delay per piece is one per GET.
    """

    def __init__(self, server: tuple[str, int], profile: Profile, link: Link) -> None:
        super().__init__(lambda size: profile.delay)
        self._server = server
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        # the event loop holds only weak references to its tasks
        self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        server = _End(lambda size: self._link.wait(size, self._loop.time()))
        server.other = self
        await self._loop.create_connection(lambda: server, *self._server)
        self.other = server
        if self.transport.is_closing():
            server.transport.close()
        else:
            self.transport.resume_reading()


async def _serve(port: int, profile: Profile, address: str, own_port: int) -> None:
    link, loop = Link(profile.rate), asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Client((address, port), profile, link), address, own_port)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    server_port, profile_name, address, listening_port = [*sys.argv[1:], *("127.0.0.1", "0")[len(sys.argv) - 3 :]]
    uvloop.run(_serve(int(server_port), PROFILES[profile_name], address, int(listening_port)))

"""Servers on loopback with silent, slow or too many clients."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from stoker_api.node_caches.peers import PEER_NAME
from stoker_kube.serving.bounded_site import BoundedSite
from stoker_kube.serving.connections import ConnectionLimits, Connections
from tests.support.peers import peer_tls
from tests.support.ports import free_ports
from tests.support.waiting import SECONDS, eventually

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
FLOOD = pytest.mark.expected_logs("too many connections")
QUICK = 0.5  # seconds to a request head; 5 in use


class Server:
    """A server whose requests to /secret are trusted."""

    def __init__(self, limits: ConnectionLimits, tls: ssl.SSLContext | None = None) -> None:
        self.connections = Connections(limits)
        application = web.Application()
        application.router.add_get("/{path:.*}", self.answer)
        idle = 60.0 if limits.trusted else limits.seconds / 2
        self.runner = web.AppRunner(application, keepalive_timeout=idle, shutdown_timeout=0.1)
        self.tls = tls

    async def start(self) -> None:
        await self.runner.setup()
        certified = self.tls is not None
        self.site = BoundedSite(self.runner, "127.0.0.1", 0, self.connections, tls=self.tls, by_certificate=certified)
        await self.site.start()

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/secret":
            self.site.trust(request)
        return web.Response(text="here")

    async def dial(self, tls: ssl.SSLContext | None = None) -> Stream:
        return await asyncio.open_connection(
            "127.0.0.1", self.site.port, ssl=tls, server_hostname=PEER_NAME if tls else None
        )

    async def get(self, path: str = "/", tls: ssl.SSLContext | None = None) -> str:
        url = f"{'https' if tls else 'http'}://127.0.0.1:{self.site.port}{path}"
        patience = aiohttp.ClientTimeout(total=SECONDS)
        async with (
            aiohttp.ClientSession(timeout=patience) as session,
            session.get(url, ssl=tls or False, server_hostname=PEER_NAME) as answer,
        ):
            return await answer.text()


@asynccontextmanager
async def serving(limits: ConnectionLimits, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(limits, tls)
    await server.start()
    try:
        yield server
    finally:
        await server.runner.cleanup()


async def is_closed(stream: Stream) -> bool:
    """Wait until the server closes the connection. Return False if it does not."""
    try:
        async with asyncio.timeout(SECONDS):
            while await stream[0].read(1000):
                pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    finally:
        stream[1].close()
    return True


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half a head"])
@pytest.mark.parametrize("trusted", [0, 9], ids=["trusts nobody", "trusts some"])
async def test_a_connection_without_a_whole_request_head_is_closed(said: bytes, trusted: int) -> None:
    async with serving(ConnectionLimits(trusted=trusted, seconds=QUICK)) as server:
        stream = await server.dial()
        stream[1].write(said)
        assert await is_closed(stream)
        await eventually(lambda: not len(server.connections))


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"], ids=["silent", "half a handshake"])
async def test_a_server_that_stops_closes_connections_before_the_end_of_their_handshake(said: bytes) -> None:
    async with serving(ConnectionLimits(trusted=9, seconds=SECONDS), peer_tls("a").server_context()) as server:
        stream = await server.dial()
        stream[1].write(said)
        await eventually(lambda: len(server.connections) == 1)
    assert await is_closed(stream)
    assert not len(server.connections)


@FLOOD
async def test_silent_connections_do_not_keep_a_request_from_its_answer() -> None:
    async with serving(ConnectionLimits(seconds=60)) as server:
        silent = [await server.dial() for _ in range(200)]
        assert await server.get("/healthz") == "here"
        assert len(server.connections) <= 8
        for _, writer in silent:
            writer.close()


@FLOOD
async def test_what_a_flood_closes_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ConnectionLimits(seconds=60)) as server:
        streams = [await server.dial() for _ in range(300)]
        await server.get()
        for _, writer in streams:
            writer.close()
    assert len(caplog.records) == 1


async def ask(stream: Stream, path: str) -> bytes:
    """Send a request on an open connection, and return the status line."""
    stream[1].write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head = await stream[0].readuntil(b"\r\n\r\n")
    await stream[0].readexactly(len("here"))
    return head.splitlines()[0]


@FLOOD
async def test_a_connection_with_a_trusted_request_stays_through_a_flood() -> None:
    limits = ConnectionLimits(trusted=4, trusted_per_address=4, seconds=QUICK)
    async with serving(limits) as server:
        stream = await server.dial()
        assert await ask(stream, "/secret") == b"HTTP/1.1 200 OK"
        silent = [await server.dial() for _ in range(100)]
        assert all([await is_closed(one) for one in silent])
        assert await ask(stream, "/secret") == b"HTTP/1.1 200 OK"
        stream[1].close()


async def test_a_request_that_is_not_trusted_has_no_more_time_than_silence() -> None:
    async with serving(ConnectionLimits(trusted=4, trusted_per_address=4, seconds=QUICK)) as server:
        stream = await server.dial()
        await ask(stream, "/other")
        assert await is_closed(stream)


async def test_a_client_certificate_makes_a_connection_trusted() -> None:
    known = peer_tls()
    limits = ConnectionLimits(trusted=4, trusted_per_address=4, seconds=QUICK)
    async with serving(limits, known.server_context()) as server:
        stream = await server.dial(known.client_context())
        assert await ask(stream, "/") == b"HTTP/1.1 200 OK"
        silent = await server.dial()
        assert await is_closed(silent)
        assert await ask(stream, "/") == b"HTTP/1.1 200 OK"
        stream[1].close()


@FLOOD
async def test_more_certified_connections_than_fit_are_refused() -> None:
    known = peer_tls()
    async with serving(ConnectionLimits(trusted=1, trusted_per_address=1), known.server_context()) as server:
        first = await server.dial(known.client_context())
        assert await ask(first, "/") == b"HTTP/1.1 200 OK"
        assert await is_closed(await server.dial(known.client_context()))
        assert await ask(first, "/") == b"HTTP/1.1 200 OK"
        first[1].close()


async def test_a_client_that_fails_its_handshake_leaves_nothing() -> None:
    known, stranger = peer_tls(), peer_tls()
    async with serving(ConnectionLimits(trusted=4, trusted_per_address=4), known.server_context()) as server:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await server.get("/", stranger.client_context())
        await eventually(lambda: not len(server.connections))


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
async def test_without_a_host_it_serves_ipv4_and_ipv6(address: str) -> None:
    server = Server(ConnectionLimits())
    await server.runner.setup()
    (port,) = free_ports(1)
    try:
        await BoundedSite(server.runner, None, port, server.connections).start()
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}:{port}/") as answer:
            assert await answer.text() == "here"
    finally:
        await server.runner.cleanup()


async def test_a_site_at_an_ipv6_address_names_it_in_brackets() -> None:
    server = Server(ConnectionLimits())
    await server.runner.setup()
    try:
        site = BoundedSite(server.runner, "::1", 0, server.connections)
        await site.start()
        assert site.name == f"http://[::1]:{site.port}"
    finally:
        await server.runner.cleanup()


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with serving(ConnectionLimits()) as server:
        with pytest.raises(OSError, match="in use"):
            await BoundedSite(server.runner, "127.0.0.1", server.site.port, Connections(ConnectionLimits())).start()

"""Answers of a peer about several files are untrusted: accepted bytes have the required length."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker_sidecar.fetcher.peers.peer_client import Ask, Came, PeerClient
from stoker_sidecar.fetcher.peers.tls_peers import Waits, tls_peer_client
from stoker_sidecar.wire.config.peer_tls import PeerTls
from stoker_sidecar.wire.small_files import SIZES
from tests.support.cases import cases
from tests.support.peers import peer_tls

ASKS = [Ask("a", 0, 3, 3), Ask("b", 0, 2, 2)]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(scope="module")
def tls() -> PeerTls:
    return peer_tls("liar")


@asynccontextmanager
async def asking(
    tls: PeerTls, handler: Handler, server: ssl.SSLContext, silent: float = 5.0
) -> AsyncIterator[tuple[PeerClient, str]]:
    """Yield a client of peers, and the address of a node that answers all requests by ``handler``."""
    application = web.Application()
    application.router.add_get("/{tail:.*}", handler)
    node = TestServer(application, scheme="https")
    await node.start_server(ssl=server, shutdown_timeout=0.1)
    try:
        peer, waits = f"127.0.0.1:{node.port}", Waits(silent=silent)
        async with tls_peer_client(tls.client_context(), "uid", "digest", {peer: "liar"}, waits) as client:
            yield client, peer
    finally:
        await node.close()


async def came_of(tls: PeerTls, handler: Handler, silent: float = 5.0) -> tuple[Came, dict[int, bytes | None]]:
    given: dict[int, bytes | None] = {}
    async with asking(tls, handler, tls.server_context(), silent) as (client, peer):
        return await client.bring_files(peer, ASKS, given.__setitem__), given


@cases(
    "sizes, body",
    (None, b"aaabb"),
    ("3", b"aaa"),
    ("3,2,1", b"aaabbc"),
    ("3,3", b"aaabbb"),
    ("3,2", b"aaab"),
    ("3,2", b"aaabbb"),
    ("3,-2", b"a"),
    ("3,99999999999999999999", b"aaabb"),
    (",".join(["1"] * 1000), b"aaabb"),
)
async def test_what_does_not_add_up_is_not_taken(tls: PeerTls, sizes: str | None, body: bytes) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers={} if sizes is None else {SIZES: sizes})

    assert await came_of(tls, answer) == (Came.NOTHING, {})


@pytest.mark.parametrize(("status", "came"), [(503, Came.BUSY), (404, Came.ABSENT), (400, Came.NOTHING)])
async def test_a_refusal_is_one_for_all(tls: PeerTls, status: int, came: Came) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    assert await came_of(tls, answer) == (came, {})


@pytest.mark.parametrize("stalls", [False, True])
async def test_what_came_before_it_broke_off_or_fell_silent_is_given(tls: PeerTls, *, stalls: bool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={SIZES: "3,2", "Content-Length": "5"})
        await response.prepare(request)
        await response.write(b"aaab")
        if stalls:
            await asyncio.Event().wait()
        assert request.transport is not None
        request.transport.close()
        return response

    assert await came_of(tls, answer, 0.2) == (Came.NOTHING, {0: b"aaa"})


async def test_what_is_not_there_is_told_in_its_place(tls: PeerTls) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"bb", headers={SIZES: "-1,2"})

    assert await came_of(tls, answer) == (Came.NOTHING, {0: None, 1: b"bb"})


async def test_who_is_asked_again_is_known_by_the_connection_before(tls: PeerTls) -> None:
    server = tls.server_context()

    async def answer(_: web.Request) -> web.StreamResponse:
        response = web.Response(body=b"aaabb", headers={SIZES: "3,2"})
        response.force_close()
        return response

    async with asking(tls, answer, server) as (client, peer):
        for _ in range(3):
            await client.bring_files(peer, ASKS, lambda place, content: None)
    assert server.session_stats()["hits"] == 2


async def test_who_shows_a_certificate_of_other_authorities_gives_nothing(tls: PeerTls) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"aaabb", headers={SIZES: "3,2"})

    given: dict[int, bytes | None] = {}
    async with asking(tls, answer, peer_tls("liar").server_context()) as (client, peer):
        assert await client.bring_files(peer, ASKS, given.__setitem__) is Came.NOTHING
    assert given == {}

"""What a node answers that is asked for several files may be anything: what is taken is as long as it must be."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stoker_sidecar.fetcher.download.neighbours import Ask, Came, Neighbours
from stoker_sidecar.fetcher.download.tls_neighbours import Waits, tls_neighbours
from stoker_sidecar.wire.peer_tls import PeerTls
from stoker_sidecar.wire.small_files import SIZES
from tests.support.peers import peer_tls

ASKS = [Ask("a", 0, 3, 3), Ask("b", 0, 2, 2)]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(scope="module")
def tls() -> PeerTls:
    return peer_tls()


@asynccontextmanager
async def asking(
    tls: PeerTls, handler: Handler, server: ssl.SSLContext, silent: float = 5.0
) -> AsyncIterator[tuple[Neighbours, str]]:
    """Give neighbours, and a node that answers all by ``handler``."""
    application = web.Application()
    application.router.add_get("/{tail:.*}", handler)
    node = TestServer(application, scheme="https")
    await node.start_server(ssl=server, shutdown_timeout=0.1)
    try:
        async with tls_neighbours(tls.client_context(), "uid", "digest", Waits(silent=silent)) as neighbours:
            yield neighbours, f"127.0.0.1:{node.port}"
    finally:
        await node.close()


async def came_of(tls: PeerTls, handler: Handler, silent: float = 5.0) -> tuple[Came, dict[int, bytes | None]]:
    given: dict[int, bytes | None] = {}
    async with asking(tls, handler, tls.server_context(), silent) as (neighbours, peer):
        return await neighbours.bring_files(peer, ASKS, given.__setitem__), given


@pytest.mark.parametrize(
    ("sizes", "body"),
    [
        (None, b"aaabb"),
        ("3", b"aaa"),
        ("3,2,1", b"aaabbc"),
        ("3,3", b"aaabbb"),
        ("3,2", b"aaab"),
        ("3,2", b"aaabbb"),
        ("3,-2", b"a"),
        ("3,99999999999999999999", b"aaabb"),
        (",".join(["1"] * 1000), b"aaabb"),
    ],
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

    async with asking(tls, answer, server) as (neighbours, peer):
        for _ in range(3):
            await neighbours.bring_files(peer, ASKS, lambda place, content: None)
    assert server.session_stats()["hits"] == 2


async def test_who_shows_a_certificate_of_other_authorities_gives_nothing(tls: PeerTls) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"aaabb", headers={SIZES: "3,2"})

    given: dict[int, bytes | None] = {}
    async with asking(tls, answer, peer_tls().server_context()) as (neighbours, peer):
        assert await neighbours.bring_files(peer, ASKS, given.__setitem__) is Came.NOTHING
    assert given == {}

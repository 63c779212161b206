"""Small bodies, which the event loop receives: the view of a server on loopback, and the effect of its faults."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from stoker_sidecar.errors import EndpointUnreachable, InvalidSource
from stoker_sidecar.store.buckets.s3_get import S3Getter
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.http import transport_loop
from tests.support.getters import anonymous_getter
from tests.support.waiting import SECONDS, eventually

CONTENT = bytes(range(256)) * 8
ANSWER = f"HTTP/1.1 200 OK\r\nContent-Length: {len(CONTENT)}\r\n\r\n".encode() + CONTENT


class ScriptedServer:
    """A server that answers each request with the next of ``answers``, or ANSWER. An empty one ends the connection."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: list[bytes] = []
        self.heads: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.closed = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                await self.go_on.wait()
                answer = self.answers.pop(0) if self.answers else ANSWER
                writer.write(answer)
                if not answer:
                    break
        writer.close()
        self.closed += 1


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    served = ScriptedServer()
    listening = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.port = listening.sockets[0].getsockname()[1]
    yield served
    served.go_on.set()
    listening.close()


@pytest.fixture
async def getter(server: ScriptedServer) -> AsyncIterator[S3Getter]:
    made = anonymous_getter(f"127.0.0.1:{server.port}")
    yield made
    await made.aclose()


async def _get(getter: S3Getter, etag: str = "") -> bytes:
    into = bytearray()
    async with getter.get_range("k", 0, len(CONTENT), if_match=etag) as body:
        await body.stream(into.extend)
    return bytes(into)


async def test_a_connection_is_used_again(server: ScriptedServer, getter: S3Getter) -> None:
    for _ in range(3):
        assert await _get(getter) == CONTENT
    assert (len(server.heads), len(server.writers)) == (3, 1)


async def test_requests_at_once_have_a_connection_each(server: ScriptedServer, getter: S3Getter) -> None:
    server.go_on.clear()
    getting = [asyncio.create_task(_get(getter)) for _ in range(5)]
    await eventually(lambda: len(server.heads) == 5)
    server.go_on.set()
    assert await asyncio.gather(*getting) == [CONTENT] * 5
    assert len(server.writers) == 5


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(
    server: ScriptedServer, getter: S3Getter
) -> None:
    await _get(getter)
    server.writers[0].close()
    assert await _get(getter) == CONTENT  # whether the end has been seen by now or not
    assert len(server.writers) == 2


async def test_a_request_that_a_used_connection_ends_on_is_made_once_more(
    server: ScriptedServer, getter: S3Getter
) -> None:
    await _get(getter)
    server.answers = [b""]
    assert await _get(getter) == CONTENT
    assert (len(server.heads), len(server.writers)) == (3, 2)


async def test_a_new_connection_that_ends_without_an_answer_is_an_error(
    server: ScriptedServer, getter: S3Getter
) -> None:
    server.answers = [b""]
    with pytest.raises(EndpointUnreachable, match="closed the connection"):
        await _get(getter)
    assert len(server.heads) == 1


async def test_a_connection_on_which_more_came_than_was_asked_for_is_given_up(
    server: ScriptedServer, getter: S3Getter
) -> None:
    await _get(getter)
    server.writers[0].write(ANSWER)
    await eventually(lambda: server.closed == 1)
    assert await _get(getter) == CONTENT
    assert len(server.writers) == 2


async def test_a_cancelled_get_takes_its_connection_along(server: ScriptedServer, getter: S3Getter) -> None:
    server.go_on.clear()
    getting = asyncio.create_task(_get(getter))
    await eventually(lambda: len(server.heads) == 1)
    getting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await getting
    server.go_on.set()
    assert await _get(getter) == CONTENT
    assert len(server.writers) == 2


async def test_a_getter_that_is_closed_leaves_no_connection_open(server: ScriptedServer) -> None:
    getter = anonymous_getter(f"127.0.0.1:{server.port}")
    await _get(getter)
    await getter.aclose()
    await eventually(lambda: server.closed == 1)


@pytest.mark.parametrize("etag", ['e"\r\nx-evil: "1', "e\n", "e\r"])
async def test_a_line_break_in_an_etag_does_not_become_a_header(
    server: ScriptedServer, getter: S3Getter, etag: str
) -> None:
    with pytest.raises(InvalidSource, match="line break"):
        await _get(getter, etag)
    assert server.heads == []


async def test_a_used_connection_that_falls_silent_is_given_up(server: ScriptedServer) -> None:
    getter = anonymous_getter(f"127.0.0.1:{server.port}", ConnectionSettings(read_timeout=0.2))
    for _ in range(3):
        await _get(getter)
    server.go_on.clear()
    with pytest.raises(EndpointUnreachable, match="does not answer"):
        await _get(getter)
    assert len(server.writers) == 1
    await getter.aclose()


async def test_connections_that_nobody_needs_are_closed_after_a_while(
    server: ScriptedServer, getter: S3Getter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_loop, "KEEP_ALIVE", 0.05)
    await asyncio.gather(*(_get(getter) for _ in range(3)))
    await eventually(lambda: server.closed == 3)
    assert await _get(getter) == CONTENT


@pytest.mark.asyncio(loop_factories=["asyncio"])  # libuv calls the resolver itself
async def test_a_name_is_asked_for_once_for_connections_made_at_once(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _resolving(monkeypatch, "127.0.0.1")
    getter = anonymous_getter(f"s3.example.com:{server.port}")
    assert await asyncio.gather(*(_get(getter) for _ in range(5))) == [CONTENT] * 5
    await getter.aclose()
    assert (len(asked), len(server.writers)) == (1, 5)


@pytest.mark.asyncio(loop_factories=["asyncio"])  # libuv calls the resolver itself
async def test_a_name_that_did_not_resolve_is_asked_for_again(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    getter = anonymous_getter(f"s3.invalid:{server.port}")
    with pytest.raises(EndpointUnreachable):
        await _get(getter)
    _resolving(monkeypatch, "127.0.0.1")
    assert await _get(getter) == CONTENT
    await getter.aclose()


@pytest.mark.asyncio(loop_factories=["asyncio"])  # libuv calls the resolver itself
async def test_an_address_that_refuses_is_passed_over(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    _resolving(monkeypatch, "::1", "127.0.0.1")  # the first address has no listener
    getter = anonymous_getter(f"s3.example.com:{server.port}")
    async with asyncio.timeout(SECONDS):
        assert await _get(getter) == CONTENT
    await getter.aclose()


def _resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[object]:
    """Resolve every name to these addresses from now on. Return the requested names."""
    resolve, asked = socket.getaddrinfo, list[object]()

    def resolved(host: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(host)
        return [found for address in addresses for found in resolve(address, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return asked

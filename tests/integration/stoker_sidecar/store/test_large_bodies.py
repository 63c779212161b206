"""Large bodies, as seen by a server on loopback, a reader and a cancelled fetch."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from stoker_sidecar.errors import DiskFull, EndpointUnreachable
from stoker_sidecar.store.base import SMALL
from stoker_sidecar.store.buckets.s3_get import S3Getter
from stoker_sidecar.store.connection import ConnectionSettings
from tests.support.getters import anonymous_getter
from tests.support.waiting import SECONDS, eventually

CONTENT = os.urandom(2 * 1024 * 1024)
_HEAD = f"HTTP/1.1 200 OK\r\nContent-Length: {len(CONTENT)}\r\n\r\n".encode()
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(CONTENT), CONTENT)
_LEAST = 64 * 1024  # collected bytes after the first write


class PausingServer:
    """A server that answers every GET with CONTENT. Bytes from ``first`` to ``most`` wait for ``go_on``.

    ``asked`` has the first lines of requests. With ``chunked``, answers have no Content-Length.
    """

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[str] = []
        self.connections = 0
        self.closed = 0
        self.first, self.most = SMALL, len(CONTENT)
        self.chunked = False
        self.closing = False  # the server closes silently after each answer
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.asked.append(head.decode().splitlines()[0])
                if self.chunked:
                    writer.write(_CHUNKED)
                else:
                    writer.write(_HEAD + CONTENT[: self.first])
                    await self.go_on.wait()
                    writer.write(CONTENT[self.first : self.most])
                await writer.drain()
                if self.closing:
                    break
        writer.close()
        self.closed += 1


@pytest.fixture
async def server() -> AsyncIterator[PausingServer]:
    served = PausingServer()
    listening = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    served.address = f"{host}:{port}"
    yield served
    served.go_on.set()
    listening.close()


@pytest.fixture
async def getter(server: PausingServer) -> AsyncIterator[S3Getter]:
    made = anonymous_getter(server.address)
    yield made
    await made.aclose()


async def _get(getter: S3Getter, into: bytearray) -> None:
    async with getter.get_range("k", 0, len(CONTENT), if_match="", whole=True) as body:
        await body.stream(into.extend)


async def test_the_first_bytes_are_there_while_the_rest_is_on_its_way(server: PausingServer, getter: S3Getter) -> None:
    server.go_on.clear()
    into = bytearray()
    getting = asyncio.create_task(_get(getter, into))
    await eventually(lambda: len(into) == SMALL)
    server.go_on.set()
    await getting
    assert into == CONTENT


async def test_what_came_later_is_written_before_a_whole_buffer_is_full(
    server: PausingServer, getter: S3Getter
) -> None:
    server.first = SMALL + _LEAST
    server.go_on.clear()
    into = bytearray()
    getting = asyncio.create_task(_get(getter, into))
    await eventually(lambda: len(into) == SMALL + _LEAST)
    server.go_on.set()
    await getting
    assert into == CONTENT


async def test_a_body_in_many_packets_is_written_in_few_steps(server: PausingServer, getter: S3Getter) -> None:
    steps: list[int] = []
    async with getter.get_range("k", 0, len(CONTENT), if_match="", whole=True) as body:
        await body.stream(lambda data: steps.append(len(data)))
    assert sum(steps) == len(CONTENT)
    assert len([step for step in steps if step < _LEAST]) <= 2  # the end of the first bytes, and of the body


async def test_a_body_of_no_known_length_is_taken_whole(server: PausingServer, getter: S3Getter) -> None:
    server.chunked = True
    for _ in range(2):
        await _get(getter, into := bytearray())
        assert into == CONTENT
    assert server.connections == 1


async def test_a_cancelled_get_ends_at_once_and_closes_its_connection(server: PausingServer, getter: S3Getter) -> None:
    server.go_on.clear()
    into = bytearray()
    getting = asyncio.create_task(_get(getter, into))
    await eventually(lambda: len(into) == SMALL)
    getting.cancel()
    async with asyncio.timeout(SECONDS):  # less than the read timeout
        with pytest.raises(asyncio.CancelledError):
            await getting
    assert len(into) == SMALL
    server.go_on.set()
    await _get(getter, again := bytearray())
    assert again == CONTENT
    assert server.connections == 2


async def test_a_write_that_fails_ends_the_get_with_its_error(server: PausingServer, getter: S3Getter) -> None:
    def full(data: bytes | memoryview) -> None:
        raise DiskFull("no room for it")

    server.first = 0  # so that no byte arrives with the head
    server.go_on.clear()
    async with getter.get_range("k", 0, len(CONTENT), if_match="", whole=True) as body:
        streaming = asyncio.ensure_future(body.stream(full))
        server.go_on.set()
        with pytest.raises(DiskFull):
            await streaming
    await _get(getter, into := bytearray())
    assert into == CONTENT
    assert server.connections == 2


async def test_a_body_that_breaks_off_is_a_temporary_error(server: PausingServer, getter: S3Getter) -> None:
    server.most, server.closing = SMALL + 1, True
    with pytest.raises(EndpointUnreachable, match="broke off") as caught:
        await _get(getter, into := bytearray())
    assert caught.value.temporary
    assert CONTENT.startswith(into)


async def test_a_body_that_falls_silent_is_given_up(server: PausingServer) -> None:
    getter = anonymous_getter(server.address, ConnectionSettings(read_timeout=0.2))
    server.go_on.clear()
    with pytest.raises(EndpointUnreachable, match="does not answer"):
        await _get(getter, bytearray())
    await getter.aclose()


async def test_a_connection_is_used_again(server: PausingServer, getter: S3Getter) -> None:
    for _ in range(3):
        await _get(getter, bytearray())
    assert (len(server.asked), server.connections) == (3, 1)


async def test_a_connection_that_the_server_has_closed_is_not_used_again(
    server: PausingServer, getter: S3Getter
) -> None:
    server.closing = True
    await _get(getter, bytearray())
    await eventually(lambda: server.closed == 1)
    await _get(getter, into := bytearray())
    assert into == CONTENT
    assert server.connections == 2


async def test_a_getter_that_is_closed_leaves_no_connection_open(server: PausingServer) -> None:
    getter = anonymous_getter(server.address)
    await _get(getter, bytearray())
    await getter.aclose()
    await eventually(lambda: server.closed == 1)


async def test_a_proxy_is_asked_when_the_environment_names_one(
    server: PausingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{server.address}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    getter = anonymous_getter("s3.example.com")
    await _get(getter, into := bytearray())
    await getter.aclose()
    assert into == CONTENT
    assert server.asked == ["GET http://s3.example.com/b/k HTTP/1.1"]

"""Large bodies, which threads take: what a server on loopback, a reader and a cancelled fetch see of it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from stoker_sidecar.store.base import SMALL
from stoker_sidecar.store.s3_get import S3Getter
from tests.support.getters import anonymous_getter
from tests.support.waiting import SECONDS, eventually

CONTENT = os.urandom(2 * 1024 * 1024)
_HEAD = f"HTTP/1.1 200 OK\r\nContent-Length: {len(CONTENT)}\r\n\r\n".encode()
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(CONTENT), CONTENT)
_LEAST = 64 * 1024  # bytes that are collected, once the first are written


class PausingServer:
    """A server that answers every GET with CONTENT, of which what is beyond ``first`` bytes waits for ``go_on``.

    ``asked``: the first lines of requests. ``chunked``: it does not say how long its answers are.
    """

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[str] = []
        self.connections = 0
        self.closed = 0
        self.first = SMALL
        self.chunked = False
        self.closing = False  # its end, after each answer, without saying so
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
                    writer.write(CONTENT[self.first :])
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


async def test_a_cancelled_get_ends_at_once_though_its_thread_waits_for_bytes(
    server: PausingServer, getter: S3Getter
) -> None:
    server.go_on.clear()
    into = bytearray()
    getting = asyncio.create_task(_get(getter, into))
    await eventually(lambda: len(into) == SMALL)
    getting.cancel()
    async with asyncio.timeout(SECONDS):  # less than the read timeout
        with pytest.raises(asyncio.CancelledError):
            await getting
    assert len(into) == SMALL


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

"""The file system's side of the fetcher's socket, over a real socket."""

import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from stoker_sidecar.errors import FsError
from stoker_sidecar.fuse.fetch_client import FetchClient
from stoker_sidecar.wire.fetcher_protocol import Done, Failed, Read, ReadDone, decode_request, encode_reply

_SECONDS = 10.0
Handler = Callable[[trio.SocketStream], Awaitable[None]]


def _reply(line: bytes, file: str) -> bytes:
    return encode_reply(decode_request(line)[0], ReadDone("parts", file))


async def _line(stream: trio.SocketStream) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        data += await stream.receive_some(65536)
    return data


async def _until_hung_up(stream: trio.SocketStream) -> None:
    """Read all input and send nothing."""
    async for _ in stream:
        pass


async def _listen(path: Path, handlers: list[Handler]) -> None:
    """Serve one connection after the other, each with the next handler."""
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(str(path))
    listening.listen()
    with listening:
        for handler in handlers:
            connection, _ = await listening.accept()
            async with trio.SocketStream(connection) as stream:
                await handler(stream)
        await trio.Event().wait()


def _run(
    path: Path, handlers: list[Handler], use: Callable[[FetchClient], Awaitable[None]], deadline: float = 60.0
) -> None:
    async def main() -> None:
        client = FetchClient(path, "uid", "digest", deadline=deadline)
        with trio.fail_after(_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.run)
                nursery.start_soon(_listen, path, handlers)
                await use(client)
                nursery.cancel_scope.cancel()

    trio.run(main)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fetcher.sock"


def test_replies_find_their_requests_in_any_order(path: Path) -> None:
    async def answer_backwards(stream: trio.SocketStream) -> None:
        lines: list[bytes] = []
        while len(lines) < 3:
            lines += (await _line(stream)).splitlines()
        for line in reversed(lines):
            request = decode_request(line)[1]
            assert isinstance(request, Read)
            await stream.send_all(_reply(line, f"parts/{request.ino}"))
        await _until_hung_up(stream)

    got: dict[int, str] = {}

    async def use(client: FetchClient) -> None:
        async def ask(ino: int) -> None:
            got[ino] = (await client.fetch(ino, 0, 10)).file

        async with trio.open_nursery() as nursery:
            for ino in (5, 6, 7):
                nursery.start_soon(ask, ino)

    _run(path, [answer_backwards], use)
    assert got == {5: "parts/5", 6: "parts/6", 7: "parts/7"}


def test_a_request_is_asked_again_of_a_fetcher_that_came_back(path: Path) -> None:
    asked: list[bytes] = []

    async def hang_up(stream: trio.SocketStream) -> None:
        asked.append(await _line(stream))

    async def answer(stream: trio.SocketStream) -> None:
        asked.append(await _line(stream))
        await stream.send_all(_reply(asked[-1], "parts/1"))
        await _until_hung_up(stream)

    async def use(client: FetchClient) -> None:
        assert (await client.fetch(1, 0, 10)).file == "parts/1"

    _run(path, [hang_up, hang_up, answer], use)
    assert len(asked) == 3
    assert len(set(asked)) == 1


def test_a_line_that_is_no_reply_ends_the_connection_and_not_the_request(path: Path) -> None:
    async def babble(stream: trio.SocketStream) -> None:
        await _line(stream)
        await stream.send_all(b"what?\n")
        assert await stream.receive_some(1) == b"", "the client hangs up"

    async def answer(stream: trio.SocketStream) -> None:
        await stream.send_all(_reply(await _line(stream), "parts/1"))
        await _until_hung_up(stream)

    async def use(client: FetchClient) -> None:
        assert (await client.fetch(1, 0, 10)).file == "parts/1"

    _run(path, [babble, answer], use)


def test_a_reply_that_fits_no_read_is_eio(path: Path) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        await stream.send_all(encode_reply(decode_request(await _line(stream))[0], Done()))
        await _until_hung_up(stream)

    async def use(client: FetchClient) -> None:
        with pytest.raises(FsError, match="answered a read with Done") as caught:
            await client.fetch(1, 0, 10)
        assert caught.value.errno == errno.EIO

    _run(path, [answer], use)


def test_a_fetcher_that_was_not_told_yet_is_asked_again(path: Path) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        number, _ = decode_request(await _line(stream))
        await stream.send_all(encode_reply(number, Failed(errno.EAGAIN, "this node was not given the dataset")))
        await stream.send_all(_reply(await _line(stream), "parts/1"))
        await _until_hung_up(stream)

    async def use(client: FetchClient) -> None:
        assert (await client.fetch(1, 0, 10)).file == "parts/1"

    _run(path, [answer], use)


def test_a_fetcher_that_never_answers_is_eio_after_the_deadline(path: Path) -> None:
    async def use(client: FetchClient) -> None:
        with pytest.raises(FsError, match="did not bring it within 0 s and said: nothing") as caught:
            await client.fetch(1, 0, 10)
        assert os.strerror(caught.value.errno) == "Input/output error"

    _run(path, [_until_hung_up], use, deadline=0.05)


def test_what_a_busy_fetcher_has_no_room_for_is_sent_when_it_has(path: Path) -> None:
    count = 5_000  # lines of some 90 bytes: more than a socket buffers

    async def answer_later(stream: trio.SocketStream) -> None:
        data = b""
        await trio.testing.wait_all_tasks_blocked()  # all requests have been sent by then
        while data.count(b"\n") < count:
            data += await stream.receive_some(65536)
        await stream.send_all(b"".join(_reply(line, "parts/1") for line in data.splitlines()))
        await _until_hung_up(stream)

    got: list[str] = []

    async def use(client: FetchClient) -> None:
        async def ask(ino: int) -> None:
            got.append((await client.fetch(ino, 0, 10)).file)

        async with trio.open_nursery() as nursery:
            for ino in range(count):
                nursery.start_soon(ask, ino)

    _run(path, [answer_later], use)
    assert got == ["parts/1"] * count

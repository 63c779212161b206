"""A client's connection to the fetcher, over a real socket pair."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from stoker_sidecar.fetcher.server import ClientConnection
from stoker_sidecar.wire.fetcher_protocol import MAX_LINE, Failed, InventoryQuery, Request, decode_reply, encode_request
from tests.support.waiting import eventually

_LARGE = Failed(5, "x" * 512 * 1024)  # more than a socket takes at once


@dataclass
class Answers:
    """The requests that a test server has served. It answers each by ``reply``, or never if ``reply`` is None."""

    reply: Failed | None = None
    begun: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    left_off: list[int] = field(default_factory=list)
    open: set[ClientConnection] = field(default_factory=set)

    async def serve(self, connection: ClientConnection, number: int, request: Request) -> None:
        self.begun.append(number)
        try:
            if self.reply is None:
                await asyncio.Event().wait()
            else:
                await connection.send(number, self.reply)
                self.answered.append(number)
        except asyncio.CancelledError:
            self.left_off.append(number)
            raise


@asynccontextmanager
async def connected(answers: Answers) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect a client to a connection with these answers."""
    ours, theirs = socket.socketpair()
    connection = ClientConnection(answers.serve, answers.open.add, answers.open.discard)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, theirs)
    reader, writer = await asyncio.open_connection(sock=ours, limit=len(_LARGE.message) + 1024)
    try:
        yield reader, writer
    finally:
        writer.close()
        await eventually(lambda: not answers.open)


def _requests(*numbers: int) -> bytes:
    return b"".join(encode_request(number, InventoryQuery("uid", "digest")) for number in numbers)


async def test_requests_that_come_together_are_served_side_by_side() -> None:
    answers = Answers()
    async with connected(answers) as (_, writer):
        writer.write(_requests(1, 2))
        await eventually(lambda: answers.begun == [1, 2])


async def test_what_a_client_asked_for_ends_with_its_connection() -> None:
    answers = Answers()
    async with connected(answers) as (_, writer):
        writer.write(_requests(1, 2))
        await eventually(lambda: len(answers.begun) == 2)
    await eventually(lambda: sorted(answers.left_off) == [1, 2])


async def test_answers_wait_while_the_client_does_not_read() -> None:
    answers, numbers = Answers(_LARGE), range(1, 9)  # more than twice the client's buffer
    async with connected(answers) as (reader, writer):
        writer.write(_requests(*numbers))
        await eventually(lambda: len(answers.begun) == len(numbers))
        assert len(answers.answered) < len(numbers)
        lines = [await reader.readline() for _ in numbers]
        assert [decode_reply(line) for line in lines] == [(number, _LARGE) for number in numbers]
        await eventually(lambda: sorted(answers.answered) == [*numbers])


@pytest.mark.expected_logs("a connection is closed")
@pytest.mark.parametrize("said", [b"what?\n", b"x" * (MAX_LINE + 1)])
async def test_what_is_no_request_or_has_no_end_closes_the_connection(said: bytes) -> None:
    async with connected(Answers()) as (reader, writer):
        writer.write(said)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)

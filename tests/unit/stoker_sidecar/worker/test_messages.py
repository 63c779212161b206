"""Messages between the fetcher and workers go out at once, or a moment later with the following ones."""

import asyncio
from typing import Any, cast

from msgspec.json import decode

from stoker_sidecar.worker.messages import FromWorker, MessageStream, PieceDone, Pong, decode_from_worker
from stoker_sidecar.worker.transfer import Fetched
from tests.support.waiting import eventually

DONE = Fetched(published=True, md5="", etag_may_be_md5=True)


class Lines:
    """The transport. Records the jobs of the answers in each written line, and None for another message."""

    def __init__(self) -> None:
        self.written: list[list[int | None]] = []

    def write(self, line: bytes) -> None:
        rows: list[list[Any]] = decode(line)
        self.written.append([row[1] if row[0] == "done" else None for row in rows])


def stream() -> tuple[MessageStream[FromWorker], Lines]:
    made, lines = MessageStream(decode_from_worker, lambda message: None, lambda: None), Lines()
    made.connection_made(cast(asyncio.Transport, lines))
    return made, lines


async def test_messages_of_one_turn_go_out_in_one_line() -> None:
    made, lines = stream()
    made.send(PieceDone(1, DONE))
    made.send(PieceDone(2, DONE))
    await asyncio.sleep(0)
    assert lines.written == [[1, 2]]


async def test_an_answer_among_others_waits_for_the_next_ones() -> None:
    made, lines = stream()
    made.send_among_others(PieceDone(1, DONE))
    await asyncio.sleep(0)
    made.send_among_others(PieceDone(2, DONE))
    await asyncio.sleep(0)
    assert lines.written == []
    await eventually(lambda: lines.written == [[1, 2]])


async def test_what_is_sent_at_once_takes_along_what_waits() -> None:
    made, lines = stream()
    made.send_among_others(PieceDone(1, DONE))
    made.send(Pong())
    await asyncio.sleep(0)
    assert lines.written == [[1, None]]


async def test_no_more_than_a_few_answers_wait() -> None:
    made, lines = stream()
    for job in range(17):
        made.send_among_others(PieceDone(job, DONE))
    await asyncio.sleep(0)
    assert lines.written == [list(range(17))]


async def test_messages_go_on_after_those_that_waited() -> None:
    made, lines = stream()
    made.send_among_others(PieceDone(1, DONE))
    await eventually(lambda: lines.written == [[1]])
    made.send(PieceDone(2, DONE))
    await asyncio.sleep(0)
    assert lines.written == [[1], [2]]

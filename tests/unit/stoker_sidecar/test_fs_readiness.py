"""How a FUSE server waits for its next request."""

import os
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from stoker_sidecar.fs.readiness import wait_readable


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_a_request_that_is_there_is_taken_without_a_turn_of_the_loop(pipe: tuple[int, int]) -> None:
    async def waits() -> None:
        with trio.testing.assert_no_checkpoints():
            await wait_readable(pipe[0])

    os.write(pipe[1], b"x")
    trio.run(waits)


def test_a_request_that_is_not_there_yet_is_waited_for(pipe: tuple[int, int]) -> None:
    async def waits() -> bytes:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_readable, pipe[0])
            await trio.testing.wait_all_tasks_blocked()
            os.write(pipe[1], b"x")
        return os.read(pipe[0], 1)

    assert trio.run(waits) == b"x"

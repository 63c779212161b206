"""How a FUSE server waits for its next request."""

import os
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from stoker_sidecar.fuse.main import ReadLock, wait_readable


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


def test_who_comes_back_for_the_next_request_at_once_has_it_without_a_turn_of_the_loop() -> None:
    async def takes_twice() -> None:
        lock = ReadLock()
        async with trio.open_nursery() as nursery:
            async with lock:
                nursery.start_soon(_take, lock, [])
                await trio.testing.wait_all_tasks_blocked()
            with trio.testing.assert_no_checkpoints():
                async with lock:
                    pass

    trio.run(takes_twice)


def test_when_the_one_that_had_its_turn_waits_for_something_else_another_takes_the_next_request() -> None:
    async def gives_way() -> list[str]:
        lock, taken = ReadLock(), list[str]()
        async with trio.open_nursery() as nursery:
            async with lock:
                nursery.start_soon(_take, lock, taken)
                await trio.testing.wait_all_tasks_blocked()
            await trio.testing.wait_all_tasks_blocked()
        return taken

    assert trio.run(gives_way) == ["taken"]


def test_two_never_wait_for_a_request_at_once() -> None:
    async def excluded() -> list[str]:
        lock, taken = ReadLock(), list[str]()
        async with trio.open_nursery() as nursery, lock:
            nursery.start_soon(_take, lock, taken)
            await trio.testing.wait_all_tasks_blocked()
            return list(taken)

    assert trio.run(excluded) == []


def test_one_that_always_finds_a_request_lets_other_tasks_have_their_turn() -> None:
    async def busy() -> bool:
        lock, other = ReadLock(), trio.Event()

        async def another() -> None:
            other.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(another)
            for _ in range(100):
                async with lock:
                    pass
            return other.is_set()

    assert trio.run(busy)


async def _take(lock: ReadLock, taken: list[str]) -> None:
    async with lock:
        taken.append("taken")

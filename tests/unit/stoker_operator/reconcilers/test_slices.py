"""Long work gives way, and comes to its end."""

import asyncio
from collections.abc import Generator

import pytest

from stoker_operator.foreground import FOREGROUND
from stoker_operator.reconcilers.slices import in_slices
from tests.support.virtual_time import run_virtual


def count(steps: int) -> Generator[None, None, int]:
    for _ in range(steps):
        yield
    return steps


async def others_get_turns(seconds: float) -> int:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await in_slices(count(100), seconds)
    task.cancel()
    return turns


async def test_the_result_is_that_of_the_work() -> None:
    assert await in_slices(count(3)) == 3


async def test_others_get_several_turns_when_the_time_is_up() -> None:
    assert await others_get_turns(0.0) >= 200


async def test_nobody_is_asked_before_that() -> None:
    assert await others_get_turns(1000.0) == 0


def test_work_gives_way_to_a_request_that_is_under_way() -> None:
    steps = list[int]()

    def work() -> Generator[None, None, None]:
        for number in range(3):
            steps.append(number)
            yield

    async def ask() -> int:
        with FOREGROUND.one():
            await asyncio.sleep(0)
            begun = len(steps)
            await asyncio.sleep(0.005)
            return len(steps) - begun

    async def both() -> int:
        asking = asyncio.create_task(ask())
        await in_slices(work(), 0.0)
        return await asking

    assert (run_virtual(both()), steps) == (0, [0, 1, 2])


async def test_what_the_work_raises_is_raised() -> None:
    def odd() -> Generator[None, None, None]:
        yield
        raise ArithmeticError("odd")

    with pytest.raises(ArithmeticError):
        await in_slices(odd())

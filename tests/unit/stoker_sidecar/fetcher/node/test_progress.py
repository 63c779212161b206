"""How the event loop learns the progress of pieces that threads download."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from stoker_sidecar.worker.transfer import PieceProgress
from tests.support.waiting import eventually


@pytest.fixture
async def thread() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def test_what_a_thread_has_brought_is_told_on_the_loop_while_it_goes_on(thread: ThreadPoolExecutor) -> None:
    told: list[int] = []
    come_to = PieceProgress().begin(told.append)
    await asyncio.get_running_loop().run_in_executor(thread, come_to, 7)
    await eventually(lambda: told == [7])


async def test_of_many_steps_the_last_is_told_and_few_others(thread: ThreadPoolExecutor) -> None:
    told: list[int] = []
    come_to = PieceProgress().begin(told.append)
    await asyncio.get_running_loop().run_in_executor(thread, lambda: [come_to(here) for here in range(1, 10_001)])
    await eventually(lambda: told[-1:] == [10_000])
    assert len(told) < 1_000
    assert told == sorted(told)


async def test_all_is_told_when_the_piece_has_ended_and_nothing_after_it(thread: ThreadPoolExecutor) -> None:
    progress, told, other = PieceProgress(), list[int](), list[int]()
    come_to, comes_beside = progress.begin(told.append), progress.begin(other.append)
    await asyncio.get_running_loop().run_in_executor(thread, lambda: (come_to(1), come_to(2), comes_beside(3)))
    progress.end(come_to)
    assert told[-1] == 2
    count = len(told)
    await eventually(lambda: other == [3])  # the next round of notifications is over
    assert len(told) == count


async def test_a_piece_that_brought_nothing_is_not_told_of() -> None:
    told: list[int] = []
    progress = PieceProgress()
    progress.end(progress.begin(told.append))
    assert told == []


async def test_it_tells_again_after_a_rest(thread: ThreadPoolExecutor) -> None:
    told: list[int] = []
    come_to = PieceProgress().begin(told.append)
    for here in (1, 2, 3):
        await asyncio.get_running_loop().run_in_executor(thread, come_to, here)
        await eventually(lambda here=here: told[-1:] == [here])  # type: ignore[misc]

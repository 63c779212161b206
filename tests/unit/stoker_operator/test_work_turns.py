"""All that works long on one event loop takes turns, and others have theirs between two of them."""

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

from stoker_operator.foreground import ForegroundRequests
from stoker_operator.work_turns import MOST, WorkTurns
from tests.support.virtual_time import run_virtual


class Clockwork:
    """Counts the turns of the event loop, and notes in which of them there was work."""

    def __init__(self) -> None:
        self.requests = ForegroundRequests()
        self.turns = WorkTurns(self.requests)
        self.now = 0
        self.worked_in: list[int] = []

    async def work(self, pieces: int, seconds: float = 0.0) -> None:
        for _ in range(pieces):
            async with self.turns.one(seconds):
                self.worked_in.append(self.now)

    async def ask(self, seconds: float) -> None:
        with self.requests.one():
            await asyncio.sleep(seconds)

    async def counted(self, *parts: Coroutine[Any, Any, None]) -> None:
        """Run them side by side while turns are counted."""
        counting = asyncio.create_task(self._count())
        await asyncio.gather(*parts)
        counting.cancel()

    def timed(self, *parts: Coroutine[Any, Any, None]) -> float:
        """Run them side by side, and give the seconds that it took, in which nobody computes."""

        async def run() -> float:
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*parts)
            return asyncio.get_running_loop().time() - began

        return run_virtual(run())

    async def _count(self) -> None:
        while True:
            self.now += 1
            await asyncio.sleep(0)


def gaps(numbers: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(numbers)]


async def test_of_many_that_work_one_does_in_a_turn_of_the_loop_and_others_have_four() -> None:
    clockwork = Clockwork()
    await clockwork.counted(*(clockwork.work(3) for _ in range(5)))
    assert len(clockwork.worked_in) == 15
    assert min(gaps(clockwork.worked_in)) >= 4


async def test_short_pieces_follow_each_other_until_the_time_is_up() -> None:
    clockwork = Clockwork()
    await clockwork.counted(clockwork.work(10, seconds=1000.0))
    assert set(gaps(clockwork.worked_in)) == {0}


def test_nobody_works_while_a_request_is_under_way() -> None:
    clockwork = Clockwork()
    taken = clockwork.timed(clockwork.ask(0.01), clockwork.work(2), clockwork.work(2))
    assert 0.01 <= taken < 0.02


def test_a_crowd_of_requests_does_not_end_all_work() -> None:
    clockwork = Clockwork()
    taken = clockwork.timed(clockwork.ask(0.09), clockwork.work(2))
    assert len(clockwork.worked_in) == 2
    assert taken < 0.09 + MOST


async def test_what_fails_gives_its_turn_back() -> None:
    clockwork = Clockwork()
    try:
        async with clockwork.turns.one():
            raise ArithmeticError("odd")
    except ArithmeticError:
        await clockwork.work(1)
    assert len(clockwork.worked_in) == 1

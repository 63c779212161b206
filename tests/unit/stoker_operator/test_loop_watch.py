"""What is told of an event loop that is held up."""

import asyncio
from dataclasses import dataclass, field

import pytest

from stoker_operator.loop_watch import PERIOD, LoopWatch


@dataclass
class HeldLoop:
    """A loop whose turns come late by script: (seconds that it was late, seconds that it computed) for each."""

    turns: list[tuple[float, float]]
    time: float = 0.0
    computed: float = 0.0
    told: list[tuple[float, float]] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        if not self.turns:
            raise asyncio.CancelledError
        late, busy = self.turns.pop(0)
        self.time += seconds + late
        self.computed += busy

    async def watched(self) -> list[tuple[float, float]]:
        watch = LoopWatch(
            lambda late, busy: self.told.append((late, busy)),
            clock=lambda: self.time,
            cpu=lambda: self.computed,
            sleep=self.sleep,
        )
        with pytest.raises(asyncio.CancelledError):
            await watch.run()
        return self.told


async def test_a_loop_that_turns_in_time_is_not_late() -> None:
    assert await HeldLoop([(0.0, 0.001)]).watched() == [(0.0, 0.0)]


async def test_a_loop_that_computes_is_late_and_busy() -> None:
    (turn,) = await HeldLoop([(0.5, 0.5)]).watched()
    assert turn == pytest.approx((0.5, 0.5))


async def test_a_loop_that_waits_for_a_cpu_is_late_and_not_busy() -> None:
    (turn,) = await HeldLoop([(0.5, 0.01)]).watched()
    assert turn == pytest.approx((0.5, 0.01))


async def test_what_was_computed_before_the_turn_was_due_does_not_count() -> None:
    (turn,) = await HeldLoop([(0.1, 0.1 + PERIOD)]).watched()
    assert turn == pytest.approx((0.1, 0.1))

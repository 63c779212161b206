"""What is told of an event loop whose turns take long."""

import asyncio
from collections.abc import Iterator

import pytest

from stoker_operator.loop_watch import LEAST, TurnTimer, timed_loop


class Turns:
    """A selector between whose waits time passes by script."""

    def __init__(self) -> None:
        self.time = 0.0
        self.computed = 0.0
        self.told: list[tuple[float, float]] = []
        self._timer = TurnTimer(
            lambda taken, computed: self.told.append((taken, computed)),
            clock=lambda: self.time,
            cpu=lambda: self.computed,
        )
        self._timer.select(0)

    def turn(self, taken: float, computed: float) -> list[tuple[float, float]]:
        self.time += taken
        self.computed += computed
        self._timer.select(0)
        return self.told

    def close(self) -> None:
        self._timer.close()


@pytest.fixture
def turns() -> Iterator[Turns]:
    made = Turns()
    yield made
    made.close()


def test_a_short_turn_is_not_told_of(turns: Turns) -> None:
    assert turns.turn(LEAST / 2, LEAST / 2) == []


def test_a_turn_that_computes_is_told_as_long_and_busy(turns: Turns) -> None:
    assert turns.turn(0.5, 0.5) == [(0.5, 0.5)]


def test_a_turn_that_waits_for_a_cpu_is_told_as_long_and_not_busy(turns: Turns) -> None:
    assert turns.turn(0.5, 0.01) == [(0.5, 0.01)]


def test_two_clocks_that_disagree_a_little_tell_of_no_more_than_the_turn(turns: Turns) -> None:
    assert turns.turn(0.5, 0.5001) == [(0.5, 0.5)]


def test_waiting_is_no_turn() -> None:
    told: list[tuple[float, float]] = []
    with asyncio.Runner(loop_factory=lambda: timed_loop(lambda *turn: told.append(turn))) as runner:
        told.clear()  # making the loop may have taken long on a busy machine
        runner.run(asyncio.sleep(0.05))
    assert all(computed < 0.05 for _, computed in told)


def test_a_callback_that_computes_holds_up_the_loop() -> None:
    told: list[tuple[float, float]] = []

    async def compute() -> None:
        end = asyncio.get_running_loop().time() + 0.05
        while asyncio.get_running_loop().time() < end:
            pass

    with asyncio.Runner(loop_factory=lambda: timed_loop(lambda *turn: told.append(turn))) as runner:
        runner.run(compute())
    assert max(taken for taken, _ in told) >= 0.05

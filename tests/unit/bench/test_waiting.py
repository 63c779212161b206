"""Waits that say how far they are, and memory that is flat or not."""

import pytest

from bench.errors import BenchError
from bench.simulation.memory_trend import memory_trend
from bench.simulation.waiting import STANDSTILL, LongWait


class Scripted:
    """A wait for ten things, by a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.wait = LongWait("things", 10, self.said.append, clock=lambda: self.now)

    def look(self, at: float, done: int) -> bool:
        self.now = at
        return self.wait.look(done)


def test_a_wait_ends_when_all_are_there() -> None:
    scripted = Scripted()
    assert [scripted.look(float(at), at) for at in (0, 9, 10)] == [False, False, True]


def test_a_wait_says_now_and_then_how_far_it_is_and_how_long_it_will_take() -> None:
    scripted = Scripted()
    for at in range(0, 34, 2):
        scripted.look(float(at), at // 4)
    assert scripted.said == ["  things: 4 of 10, about 24s left", "  things: 8 of 10, about 8s left"]


def test_a_wait_goes_on_for_as_long_as_anything_moves() -> None:
    scripted = Scripted()
    for number in range(10):
        assert not scripted.look(number * (STANDSTILL - 1.0), number)


def test_a_wait_in_which_nothing_moves_is_given_up() -> None:
    scripted = Scripted()
    scripted.look(0.0, 3)
    with pytest.raises(BenchError, match="3 of 10, and no more within 300 s"):
        scripted.look(STANDSTILL, 3)


def samples(minutes: int, start: float, an_hour: float) -> list[tuple[float, float]]:
    return [(60.0 * at, start + an_hour * at / 60) for at in range(minutes + 1)]


def test_memory_that_stays_is_flat() -> None:
    trend = memory_trend(samples(20, 1e8, 0.0))
    assert trend.bytes_an_hour == pytest.approx(0.0)
    assert trend.flat


def test_memory_that_grows_by_a_tenth_an_hour_is_not_flat() -> None:
    trend = memory_trend(samples(60, 1e8, 1e7))
    assert trend.bytes_an_hour == pytest.approx(1e7)
    assert trend.flat is False


def test_what_grows_at_the_beginning_alone_is_flat() -> None:
    first, later = samples(15, 0.5e8, 2e8), samples(45, 1e8, 0.0)
    joined = first + [(at + 900.0, size) for at, size in later[1:]]
    assert memory_trend(joined).flat


def test_a_short_run_says_nothing_of_it() -> None:
    trend = memory_trend(samples(5, 1e8, 1e9))
    assert trend.flat is None
    assert "too short" in trend.says


def test_one_sample_is_no_trend() -> None:
    with pytest.raises(ValueError, match="two samples"):
        memory_trend([(0.0, 1.0)])

"""How many lines may be read: a rate, and a burst."""

from stoker_sidecar.reports.core.allowance import Allowance


def test_a_burst_is_taken_at_once_and_no_more() -> None:
    allowance = Allowance(10.0, 5.0)
    assert [allowance.take(100.0) for _ in range(6)] == [True] * 5 + [False]


def test_time_gives_it_back_up_to_the_burst() -> None:
    allowance = Allowance(10.0, 5.0)
    for _ in range(5):
        allowance.take(100.0)
    assert [allowance.take(100.2) for _ in range(3)] == [True, True, False]
    assert [allowance.take(500.0) for _ in range(6)] == [True] * 5 + [False]


def test_a_clock_that_steps_back_gives_nothing() -> None:
    allowance = Allowance(10.0, 1.0)
    assert allowance.take(100.0)
    assert not allowance.take(50.0)

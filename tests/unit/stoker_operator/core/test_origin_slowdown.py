"""A bucket that asked for a lower rate, and the rise after that."""

from stoker_operator.core.origins.origin_policy import CALM, NO_CAP, Cap, Slowdown
from tests.support.present import present

MEASURED = Cap(1000, 100_000)


def test_it_goes_back_from_what_was_measured() -> None:
    assert Slowdown.begun(MEASURED, NO_CAP, 0.0).cap(NO_CAP) == Cap(700, 70_000)


def test_it_goes_back_from_the_cap_where_that_is_less() -> None:
    assert Slowdown.begun(MEASURED, Cap(500, None), 0.0).cap(Cap(500, None)) == Cap(350, 70_000)


def test_what_is_told_within_seconds_of_it_counts_once() -> None:
    slowdown = Slowdown.begun(MEASURED, NO_CAP, 0.0)

    assert not slowdown.again(9.0)
    assert slowdown.again(10.0)
    assert slowdown.cap(NO_CAP) == Cap(490, 49_000)


def test_it_never_stops_altogether() -> None:
    slowdown = Slowdown.begun(MEASURED, NO_CAP, 0.0)
    for second in range(10, 1000, 10):
        slowdown.again(second)

    assert slowdown.cap(NO_CAP) == Cap(62, 6250)


def test_it_rises_by_a_tenth_after_each_calm_and_is_over_at_twice_the_rate() -> None:
    slowdown, now, last = Slowdown.begun(MEASURED, NO_CAP, 0.0), 0.0, 700
    slowdown.rise(CALM - 1)
    assert slowdown.cap(NO_CAP).bytes_per_second == 700

    while not slowdown.is_over(NO_CAP):
        now += CALM
        slowdown.rise(now)
        bytes_ = present(slowdown.cap(NO_CAP).bytes_per_second)
        assert last < bytes_ <= 1.11 * last
        last = bytes_

    assert now <= 200.0


def test_it_is_over_where_the_cap_itself_is_reached() -> None:
    slowdown, now = Slowdown.begun(MEASURED, Cap(800, None), 0.0), 0.0
    while not slowdown.is_over(Cap(800, None)):
        now += CALM
        slowdown.rise(now)

    assert slowdown.factor >= 2.0  # requests have no cap here
    capped = Slowdown.begun(MEASURED, Cap(800, 50_000), 0.0)
    for step in range(1, 5):
        capped.rise(step * CALM)
    assert capped.is_over(Cap(800, 50_000))


def test_a_clock_that_was_set_back_neither_hides_a_slowdown_nor_keeps_the_rate_down() -> None:
    slowdown = Slowdown.begun(MEASURED, NO_CAP, 3600.0)

    assert slowdown.again(0.0)
    slowdown.rise(1.0)
    slowdown.rise(1.0 + CALM)
    assert slowdown.factor > 0.7**2

    ahead = Slowdown.begun(MEASURED, NO_CAP, 3600.0)
    ahead.rise(1.0)
    ahead.rise(1.0 + CALM)
    assert ahead.factor > 0.7

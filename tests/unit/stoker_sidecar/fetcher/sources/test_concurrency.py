"""The adaptive limit against simulated sources: latency, capacity, a narrow link, throttling. No real time passes."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.sources.core.concurrency import LEAST, MOST, START, AdaptiveLimit

SMALL = 100 * 1024


def _drive(rate: Callable[[int], float], seconds: float, size: int = SMALL) -> AdaptiveLimit:
    """Drive a limit with a source that completes ``rate(limit)`` requests per second."""
    limit, now = AdaptiveLimit(), 0.0
    while now < seconds:
        now += 1.0 / rate(limit.value)
        limit.completed(size, now, busy=True)
    return limit


def _source(latency: float, capacity: float) -> Callable[[int], float]:
    return lambda in_flight: min(in_flight / latency, capacity)


def test_a_distant_source_gets_as_many_requests_as_its_latency_needs() -> None:
    assert _drive(_source(0.020, 4000), 8.0).value >= 64  # 80 would fill it


def test_half_a_second_is_enough_to_find_what_20_ms_need() -> None:
    assert _drive(_source(0.020, 4000), 0.5).value >= 64


def test_a_pause_of_the_machine_does_not_end_the_climb() -> None:
    limit, now, paused = AdaptiveLimit(), 0.0, False
    while now < 1.0:
        now += 1.0 / _source(0.020, 4000)(limit.value)
        if limit.value == 2 * START and not paused:
            now, paused = now + 0.1, True
        limit.completed(SMALL, now, busy=True)
    assert paused
    assert limit.value >= 4 * START


def test_what_else_takes_the_machine_for_a_while_does_not_end_the_climb() -> None:
    limit, now = AdaptiveLimit(), 0.0
    while now < 2.5:
        taken = 0.15 < now < 0.75
        now += 1.0 / (500 if taken else _source(0.020, 4000)(limit.value))
        limit.completed(SMALL, now, busy=True)
    assert limit.value >= 4 * START


def test_a_near_source_is_not_asked_for_more_than_it_can_do() -> None:
    assert _drive(_source(0.002, 2500), 30.0).value <= 2 * START


def test_a_narrow_link_is_not_filled_with_requests_that_only_wait() -> None:
    link = 25e6 / SMALL
    assert _drive(_source(0.005, link), 60.0).value <= 2 * START


def test_it_finds_more_when_the_source_becomes_more_distant() -> None:
    limit, now, latency = AdaptiveLimit(), 0.0, 0.002
    while now < 60.0:
        latency = 0.002 if now < 10.0 else 0.040
        now += 1.0 / _source(latency, 2500)(limit.value)
        limit.completed(SMALL, now, busy=True)
    assert limit.value >= 60  # 100 would fill it


def test_a_source_that_throttles_is_asked_for_less() -> None:
    """The source accepts 40 concurrent requests and refuses more."""
    limit, now, refused, asked = AdaptiveLimit(), 0.0, 0, 0
    while now < 30.0:
        now += 0.02 / limit.value
        asked += 1
        if limit.value > 40 and asked % 10 == 0:
            limit.congested(now)
            refused += now > 15.0
        else:
            limit.completed(SMALL, now, busy=True)
    assert 20 <= limit.value <= 50
    assert refused <= 20  # of about 20,000: one step back after each step up that was too far


def test_congestion_of_many_requests_at_once_is_one_step_back() -> None:
    limit = AdaptiveLimit(value=100)
    for _ in range(50):
        limit.congested(10.0)
    assert limit.value == 70


def test_it_grows_though_answers_land_many_at_a_time() -> None:
    """Of answers that arrive together, only the first sees as many requests in flight as allowed."""
    limit, now, latency = AdaptiveLimit(), 0.0, 0.020
    for _ in range(200):
        now += latency
        for number in range(limit.value):
            limit.completed(SMALL, now, busy=number % 8 == 0)
    assert limit.value >= 4 * START


def test_it_does_not_grow_while_fewer_requests_are_made_than_it_allows() -> None:
    limit = AdaptiveLimit()
    for index in range(10_000):
        limit.completed(SMALL, index / 1000, busy=False)
    assert limit.value == START


@pytest.mark.parametrize("latency", [0.001, 0.1])
@given(st.lists(st.tuples(st.integers(0, 10**7), st.booleans(), st.booleans()), max_size=200))
def test_it_stays_within_its_bounds_whatever_happens(latency: float, events: list[tuple[int, bool, bool]]) -> None:
    limit = AdaptiveLimit()
    for index, (size, busy, congested) in enumerate(events):
        now = index * latency * 10
        limit.congested(now) if congested else limit.completed(size, now, busy=busy)
        assert LEAST <= limit.value <= MOST

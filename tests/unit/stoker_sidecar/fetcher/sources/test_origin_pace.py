"""The rate of a node's requests to one origin."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.sources.core.origin_pace import OriginPace, RecentRate, to_one_digit


def ask(pace: OriginPace, now: float, seconds: float, size: int) -> tuple[int, float]:
    """Send as many requests as the pace allows. Return their number, and the time at the end."""
    end, count = now + seconds, 0
    while (wait := pace.wait(now)) != inf and now + wait < end:
        now += wait
        pace.take(size, now)
        count += 1
        now += 1e-4
    return count, end


@given(st.integers(1, 500), st.integers(1, 10**6), st.integers(10**4, 10**7))
def test_neither_requests_nor_bytes_go_beyond_the_share(requests: int, size: int, rate: int) -> None:
    pace = OriginPace()
    pace.set_share(rate, requests, 0.0)

    count, _ = ask(pace, 0.0, 5.0, size)

    assert count <= 5.25 * requests + 1
    assert (count - 1) * size <= 5.25 * rate


def test_a_share_is_used_whole() -> None:
    pace = OriginPace()
    pace.set_share(None, 100.0, 0.0)

    assert ask(pace, 0.0, 10.0, 1)[0] == pytest.approx(1000, rel=0.03)


def test_what_is_owed_is_paid_off_by_a_larger_share() -> None:
    pace = OriginPace()
    pace.set_share(10, None, 0.0)
    pace.take(1000, 0.0)
    assert pace.wait(0.0) == pytest.approx(100, rel=0.1)

    pace.set_share(1000, None, 0.0)
    assert pace.wait(0.0) == pytest.approx(1.0, rel=0.1)


def test_without_a_share_nothing_waits() -> None:
    pace = OriginPace()
    pace.take(10**12, 0.0)

    assert pace.wait(0.0) == 0.0


def test_a_slowdown_halves_what_was_asked_for_and_comes_back_within_a_minute() -> None:
    pace = OriginPace()
    now = 0.0
    while now < 20:
        now += 0.01
        pace.take(1000, now)

    assert pace.slowed(now)
    halved, now = ask(pace, now, 2.0, 1000)
    assert halved == pytest.approx(110, rel=0.15)  # 50 per second, and a little more each second
    later, now = ask(pace, now, 23.0, 1000)
    assert later / 23 == pytest.approx(77, rel=0.1)
    assert pace.yields
    _, now = ask(pace, now, 55.0, 1000)
    assert pace.wait(now) == 0.0
    assert not pace.yields


def test_what_was_in_flight_together_counts_once() -> None:
    pace = OriginPace()
    for step in range(100):
        pace.take(1000, step / 10)

    assert pace.slowed(10.0)
    rate = pace.requests.rate
    assert not pace.slowed(10.9)
    assert pace.requests.rate == rate
    assert pace.slowed(11.1)
    assert pace.requests.rate < rate


def test_it_never_gives_way_altogether() -> None:
    pace = OriginPace()
    for step in range(100):
        pace.take(10**6, 2.0 * step)
        pace.slowed(2.0 * step)

    assert pace.bytes.rate >= 64 * 1024
    assert pace.requests.rate == 1.0


def test_a_listing_that_is_refused_says_nothing_of_bytes() -> None:
    pace = OriginPace()
    pace.take(0, 0.0)
    pace.slowed(0.1)

    assert pace.bytes.rate == inf
    assert pace.requests.rate < 5


def test_a_share_below_what_it_gave_way_to_holds_still() -> None:
    pace = OriginPace()
    for step in range(100):
        pace.take(1000, step / 10)
    pace.slowed(10.0)

    pace.set_share(None, 0.5, 10.0)

    assert pace.requests.rate == 0.5


def test_a_meter_is_right_from_the_first_second_on() -> None:
    meter = RecentRate()
    for step in range(10):
        meter.add(5, step / 10)

    assert meter.rate(1.0) == pytest.approx(50, rel=0.1)
    for step in range(10, 300):
        meter.add(5, step / 10)
    assert meter.rate(30.0) == pytest.approx(50, rel=0.1)


def test_what_comes_close_together_is_in_the_next_report() -> None:
    pace = OriginPace()
    for number in range(100):
        pace.take(1000, number * 1e-4)

    assert pace.rates(0.2) == pytest.approx((500_000, 500), rel=0.05)


def test_what_was_asked_for_long_ago_does_not_count_as_of_the_report() -> None:
    pace = OriginPace()
    for now in (0.0, 0.01):
        pace.take(1000, now)

    assert pace.rates(25.0)[0] < 10


@pytest.mark.parametrize(("rate", "shown"), [(0.4, 0), (7.9, 7), (1234.5, 1000), (98765, 90000)])
def test_reported_rates_have_one_digit(rate: float, shown: int) -> None:
    assert to_one_digit(rate) == shown

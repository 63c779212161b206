"""The number of pieces ahead of a reader: bandwidth x delay."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.fetcher.sources.core.horizon import TRACED, UNTRACED, Horizon
from tests.support.cases import cases


def _steady(rate: float, delay: float, seconds: float = 10.0) -> Horizon:
    """Return the horizon of a reader that passes a piece every 1 / ``rate`` seconds."""
    horizon = Horizon()
    for number in range(int(rate * seconds)):
        horizon.passed(1, number / rate, delay)
    return horizon


@cases(
    "rate, delay, products, pieces",
    (100.0, 0.1, UNTRACED, 80),
    (100.0, 0.1, TRACED, 20),
    (1000.0, 0.02, UNTRACED, 160),
    (1000.0, 0.001, UNTRACED, 8),
    (10.0, 0.001, UNTRACED, 0),
)
def test_a_steady_reader_has_products_of_its_rate_and_the_delay(
    rate: float, delay: float, products: int, pieces: int
) -> None:
    assert abs(_steady(rate, delay).pieces(delay, products) - pieces) <= 0.15 * pieces


def test_a_pause_halves_the_horizon() -> None:
    horizon = _steady(100.0, 0.1)
    before = horizon.pieces(0.1, UNTRACED)
    horizon.passed(1, 1000.0, 0.1)
    assert horizon.pieces(0.1, UNTRACED) == before // 2


def test_without_a_measurement_nothing_is_known() -> None:
    assert Horizon().pieces(0.1, UNTRACED) == 0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e9), st.floats(0, 1e12))))
def test_no_delay_and_no_rate_asks_for_more_than_the_limit(reads: list[tuple[int, float, float]]) -> None:
    horizon, now = Horizon(), 0.0
    for count, elapsed, delay in reads:
        now += elapsed
        horizon.passed(count, now, delay)
        assert 0 <= horizon.pieces(delay, UNTRACED) <= 1024

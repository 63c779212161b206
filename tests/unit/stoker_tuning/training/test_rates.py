"""Items per second, gaps and batches follow from times alone."""

import pytest

from stoker_tuning.training.workload import RateMeter
from tests.support.cases import cases


def meter(times: list[float], share: float = 1.0) -> RateMeter:
    made = RateMeter(share)
    for seconds in times:
        made.item(seconds)
    return made


@cases(
    "seen, at, rate",
    of_the_last_items=(meter([index / 50 for index in range(100)]), 99 / 50, 50),
    lower_after_a_pause=(meter([index / 50 for index in range(100)]), 100.0, 0.99),
    more_where_a_sample_is_seen=(meter([index / 5 for index in range(100)], share=0.1), 19.8, 50),
)
def test_items_a_second_are_those_of_the_last_items(seen: RateMeter, at: float, rate: float) -> None:
    assert seen.at(at).items_per_second == pytest.approx(rate)


def test_batches_are_told_by_their_pauses() -> None:
    rates = meter([batch * 0.5 + item * 0.002 for batch in range(10) for item in range(32)]).at(5.0)
    assert rates.batch_seconds == pytest.approx(0.5)
    assert rates.batch_items == 32
    assert rates.longest_gap == pytest.approx(0.5 - 31 * 0.002)


def test_even_reads_have_no_batches() -> None:
    assert meter([index * 0.01 for index in range(300)]).at(3.0).batch_items == 0


def test_nothing_read_is_no_rate() -> None:
    assert meter([]).at(5.0).items_per_second == 0

import pytest

from stoker_tuning.learning.changes import ChangeOutcome, ChangeVerdict
from stoker_tuning.learning.experiment import figures
from stoker_tuning.learning.success import MOST_RATES, RateKey, SuccessRate, SuccessRates, wilson
from stoker_tuning.vocabulary import AccessPattern
from tests.unit.stoker_tuning.learning.simulation import change


def outcome(verdict: ChangeVerdict, origin: str = "ahead") -> ChangeOutcome:
    none = figures(())
    return ChangeOutcome(change(origin=origin), 0.0, verdict, 0.0, 0.0, 0.0, none, none)


def test_rates_are_by_rule_and_pattern() -> None:
    rates = SuccessRates()
    for verdict in (ChangeVerdict.HELPED, ChangeVerdict.HELPED, ChangeVerdict.HURT, ChangeVerdict.NEUTRAL):
        rates.add(outcome(verdict))

    assert rates.of(RateKey("vision", "ahead", AccessPattern.SHUFFLED)) == SuccessRate(4, 2, 1)
    assert rates.of(RateKey("vision", "ahead", AccessPattern.SEQUENTIAL)) == SuccessRate()


def test_the_posterior_begins_even_and_goes_where_the_outcomes_are() -> None:
    assert SuccessRate().rate == 0.5
    assert SuccessRate(8, 8).rate == 0.9


def test_wilsons_interval_is_as_published() -> None:
    assert wilson(8, 10) == pytest.approx((0.490, 0.943), abs=0.001)
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_rule_is_hopeless_when_it_surely_hurts_more_often_than_not() -> None:
    assert not SuccessRate(3, 0, 3).hopeless
    assert SuccessRate(4, 0, 4).hopeless


def test_no_more_rates_are_kept_than_stated() -> None:
    rates = SuccessRates()
    for number in range(MOST_RATES + 10):
        rates.add(outcome(ChangeVerdict.HELPED, f"rule{number}"))

    assert len(rates.rows()) == MOST_RATES
    assert rates.of(RateKey("vision", "rule0", AccessPattern.SHUFFLED)).changes == 0

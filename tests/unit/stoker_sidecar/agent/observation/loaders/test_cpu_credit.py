"""Work that may cost a share of a core."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.agent.observation.loaders.loader_sampler import CpuCredit


def test_what_costs_less_than_its_share_needs_no_rest() -> None:
    assert CpuCredit(0.003, 0.05).rest(1.0, 0.002) == 0.0


def test_who_spent_more_rests_until_it_is_earned() -> None:
    assert CpuCredit(0.01, 0.05).rest(0.0, 0.02) == pytest.approx(2.0)


def test_no_more_than_so_much_is_saved() -> None:
    assert CpuCredit(0.01, 0.05).rest(3600.0, 0.06) == pytest.approx(1.0)


@given(st.lists(st.floats(0.0, 0.1), min_size=1, max_size=50))
def test_whoever_rests_as_told_spends_no_more_than_his_share(costs: list[float]) -> None:
    credit = CpuCredit(0.003, 0.05)
    rests = [0.0]
    for cost in costs:
        rests.append(credit.rest(rests[-1], cost))
    assert sum(costs) <= 0.003 * sum(rests) + 1e-6

"""The CPU share of the observer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_sidecar.helpers.observer.core.duty_cycle import (
    EVENT_SECONDS,
    LONGEST_TICK,
    OF_READERS,
    SHORTEST_TICK,
    CpuBudget,
    DutyCycle,
    next_tick,
)


def test_a_budget_is_spent_when_more_was_used_than_earned() -> None:
    budget = CpuBudget(rate=0.01, now=0.0)
    budget.account(now=1.0, used=0.04)
    assert budget.spent


def test_rest_lasts_until_half_of_what_can_be_saved_is_there_again() -> None:
    budget = CpuBudget(rate=0.01, now=0.0)
    budget.account(now=0.0, used=0.025)
    rest = budget.rest()
    assert 2.5 < rest < 3.0
    budget.account(now=rest, used=0.025)
    assert budget.rest() == pytest.approx(0.0)


def test_a_rest_ends_although_waking_up_costs_most_of_what_was_earned_meanwhile() -> None:
    budget, now, used = CpuBudget(rate=0.01, now=0.0), 0.0, 0.025
    budget.account(now, used)
    while (rest := budget.rest()) and now < 10:
        woken = min(rest, 0.01)
        now, used = now + woken, used + 0.008 * woken
        budget.account(now, used)
    assert now < 3.0


def test_a_rest_in_which_all_was_spent_is_followed_by_another() -> None:
    budget = CpuBudget(rate=0.01, now=0.0)
    budget.account(now=0.0, used=0.025)
    first = budget.rest()
    budget.account(now=first, used=0.2)
    assert budget.rest() > first


def test_no_more_than_five_seconds_worth_is_saved() -> None:
    budget = CpuBudget(rate=0.01, now=0.0)
    budget.account(now=3600.0, used=0.0)
    assert budget.balance == pytest.approx(0.05)


def test_what_the_agent_used_is_paid_from_the_same_budget_by_rest() -> None:
    budget = CpuBudget(rate=0.01, now=0.0)
    budget.charge(0.03)
    assert not budget.spent
    budget.settle()
    assert 3.0 < budget.rest() < 3.5


def test_in_no_minute_of_floods_more_than_the_rate_is_used() -> None:
    budget, now, used = CpuBudget(rate=0.01, now=0.0), 0.0, 0.0
    samples = [(0.0, 0.0)]
    while now < 600:
        now, used = now + 0.02, used + 0.02  # a look during a flood takes a full core
        budget.account(now, used)
        if budget.spent:
            now += budget.rest()
            budget.account(now, used)
        samples.append((now, used))
    within = (after - before for since, before in samples for until, after in samples if 0 < until - since <= 60)
    assert max(within) <= 0.01 * 60
    assert used / now > 0.8 * 0.01


def test_events_that_take_what_readers_may_lose_end_a_spell() -> None:
    cycle = DutyCycle(rate=0.01, now=0.0, used=0.0)
    cycle.made(round(0.01 * OF_READERS * 2.5 / EVENT_SECONDS) + 1)
    cycle.account(now=0.0, used=0.0)
    assert cycle.spent
    cycle.settle()
    assert 2.5 < cycle.rest() < 3.0


def test_marks_stay_on_for_ever_where_some_hundred_files_are_opened_a_second() -> None:
    cycle = DutyCycle(rate=0.01, now=0.0, used=0.0)
    for second in range(3600):
        cycle.made(700)
        cycle.account(now=second + 1.0, used=0.004 * second)
        assert not cycle.spent


def test_an_own_cpu_that_is_used_up_ends_a_spell_too() -> None:
    cycle = DutyCycle(rate=0.01, now=0.0, used=1.0)
    cycle.account(now=0.0, used=1.026)
    assert cycle.spent


def test_a_spell_begins_when_both_are_rested() -> None:
    cycle = DutyCycle(rate=0.01, now=0.0, used=0.0)
    cycle.made(20_000)
    cycle.account(now=0.0, used=0.03)
    cycle.settle()
    long = cycle.rest()
    assert long > 20.0
    cycle.account(now=long, used=0.03)
    assert cycle.rest() == pytest.approx(0.0)
    assert not cycle.spent


@settings(max_examples=50)
@given(
    opens=st.floats(2_000, 200_000),
    late=st.floats(0.0, 0.03),
)
def test_in_no_minute_of_floods_readers_lose_more_than_their_share_of_the_rate(opens: float, late: float) -> None:
    cycle, now, events = DutyCycle(rate=0.01, now=0.0, used=0.0), 0.0, 0
    spells = [(0.0, 0.0)]
    while now < 300:
        made = 0
        while not cycle.spent:
            now, found = now + 0.01, round(opens * 0.01)
            cycle.made(found)
            cycle.account(now, used=0.0)
            made += found
        left = round(opens * late)  # until the agent has removed the marks
        cycle.made(left)
        now += late
        cycle.account(now, used=0.0)
        cycle.settle()
        events += made + left
        spells.append((now, events * EVENT_SECONDS))
        now += cycle.rest()
        cycle.account(now, used=0.0)
    within = (after - before for since, before in spells for until, after in spells if 0 < until - since <= 60)
    # A spell that spends more than a minute's budget is paid for by the following rest.
    assert max(within) <= 0.01 * OF_READERS * 60 + 0.04 * opens * EVENT_SECONDS
    assert spells[-1][1] / now <= 0.01 * OF_READERS


@pytest.mark.parametrize(
    ("tick", "events", "wanted"),
    [(0.1, 0, LONGEST_TICK), (0.005, 0, 0.01), (0.1, 5120, 0.01), (0.005, 100_000, SHORTEST_TICK)],
)
def test_looks_come_the_faster_the_more_there_is_to_see(tick: float, events: int, wanted: float) -> None:
    assert next_tick(tick, events) == pytest.approx(wanted)

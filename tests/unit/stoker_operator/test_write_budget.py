"""Writes have a rate limit, shared by priority."""

import pytest

from stoker_operator.writes.write_budget import PATIENCE, SHARES, EventPace, WriteBudget, WritePriority, acting_for

START, PLAN, STATUS, TOLD = WritePriority


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def write(budget: WriteBudget, priority: WritePriority) -> bool:
    """Make a write if the budget allows it. Return True if it did."""
    if budget.wait(priority):
        return False
    budget.begin(priority)
    with acting_for(priority):
        budget.spend()
    budget.end(priority)
    return True


def written(budget: WriteBudget, clock: Clock, seconds: float, *priorities: WritePriority) -> dict[WritePriority, int]:
    """Write as much as the budget allows for ``seconds``, with one attempt every 10 ms. Return counts by priority."""
    counts = dict.fromkeys(priorities, 0)
    end = clock.now + seconds
    while clock.now < end:
        for priority in priorities:
            while write(budget, priority):
                counts[priority] += 1
        clock.now += 0.01
    return counts


def test_the_shares_are_of_one_whole() -> None:
    assert sum(SHARES.values()) == pytest.approx(1.0)
    assert list(SHARES) == list(WritePriority)


@pytest.mark.parametrize("priority", list(WritePriority))
def test_one_alone_has_the_whole_rate(clock: Clock, priority: WritePriority) -> None:
    budget = WriteBudget(20.0, clock, burst_seconds=1.0)
    written(budget, clock, 5.0, priority)
    assert written(budget, clock, 100.0, priority)[priority] == pytest.approx(2000, rel=0.01)


def test_all_together_have_the_rate_and_each_its_share(clock: Clock) -> None:
    budget = WriteBudget(20.0, clock, burst_seconds=1.0)
    written(budget, clock, 5.0, *WritePriority)
    counts = written(budget, clock, 100.0, *WritePriority)
    assert sum(counts.values()) == pytest.approx(2000, rel=0.02)
    for priority, share in SHARES.items():
        assert counts[priority] == pytest.approx(2000 * share, rel=0.05)


def test_what_nobody_uses_goes_to_the_more_urgent_first(clock: Clock) -> None:
    budget = WriteBudget(20.0, clock, burst_seconds=1.0)
    written(budget, clock, 5.0, START, TOLD)
    counts = written(budget, clock, 100.0, START, TOLD)
    assert counts[START] == pytest.approx(1600, rel=0.02)
    assert counts[TOLD] == pytest.approx(400, rel=0.05)


def test_after_a_rest_a_burst_goes_at_once_and_no_more(clock: Clock) -> None:
    budget = WriteBudget(20.0, clock, burst_seconds=10.0)
    clock.now = 1000.0
    count = 0
    while write(budget, PLAN):
        count += 1
    assert count == pytest.approx(20.0 * 10.0 * SHARES[PLAN], abs=1)


def test_many_writes_of_one_action_are_made_up_for(clock: Clock) -> None:
    budget = WriteBudget(10.0, clock, burst_seconds=1.0)
    with acting_for(PLAN):
        for _ in range(100):
            budget.spend()
    assert written(budget, clock, 5.0, PLAN)[PLAN] == 0


def test_what_is_not_of_the_budget_costs_nothing(clock: Clock) -> None:
    budget = WriteBudget(10.0, clock)
    with acting_for(None):
        for _ in range(1000):
            budget.spend()
    assert not any(budget.wait(priority) for priority in WritePriority)


def test_what_is_under_way_takes_its_part(clock: Clock) -> None:
    budget = WriteBudget(5.0, clock, burst_seconds=1.0)
    under_way = 0
    while not budget.wait(TOLD):
        budget.begin(TOLD)
        under_way += 1
    assert under_way == 1
    budget.end(TOLD)
    assert budget.wait(TOLD) == 0.0


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing(clock: Clock) -> None:
    budget = WriteBudget(10.0, clock)
    clock.now = -1000.0
    assert budget.wait(START) == 0.0


def test_events_count_as_written_when_they_may_go(clock: Clock) -> None:
    pace = EventPace(WriteBudget(5.0, clock, burst_seconds=2.0), clock, lambda: False)
    assert [bool(pace.wait()) for _ in range(3)] == [False, False, True]


def test_while_a_crowd_of_pods_is_let_go_an_event_comes_now_and_then(clock: Clock) -> None:
    pace = EventPace(WriteBudget(100.0, clock), clock, lambda: True)
    told = list[float]()
    while clock.now < 3 * PATIENCE - 0.1:
        if not pace.wait():
            told.append(clock.now)
        clock.now += 0.1
    assert told == pytest.approx([0.0, PATIENCE, 2 * PATIENCE], abs=0.11)


def test_events_come_as_before_when_the_crowd_has_gone(clock: Clock) -> None:
    crowds = [True]
    pace = EventPace(WriteBudget(100.0, clock), clock, lambda: crowds[0])
    assert [bool(pace.wait()) for _ in range(2)] == [False, True]
    crowds[0] = False
    assert not pace.wait()


def test_half_of_what_a_namespace_spent_is_forgotten_each_minute(clock: Clock) -> None:
    budget = WriteBudget(20.0, clock)
    for _ in range(8):
        budget.charge(("busy", "other"))
    clock.now = 120.0
    assert [budget.spent("busy"), budget.spent("calm")] == pytest.approx([2.0, 0.0])


def test_namespaces_that_spent_nothing_lately_are_forgotten(clock: Clock) -> None:
    budget = WriteBudget(20.0, clock)
    budget.charge(f"n{number}" for number in range(1000))
    clock.now = 3600.0
    budget.charge(("now",))
    assert len(budget._spent) == 1


def test_a_namespace_that_spends_leaves_half_of_a_burst_to_others(clock: Clock) -> None:
    budget = WriteBudget(20.0, clock, burst_seconds=10.0)
    counts = dict.fromkeys(("busy", "calm"), 0)
    for scope in counts:
        while not budget.wait(PLAN, scope):
            budget.begin(PLAN)
            budget.charge((scope,))
            counts[scope] += 1
    assert counts == {"busy": 25, "calm": 13}  # of 50 tokens. Each namespace leaves as many as it spent

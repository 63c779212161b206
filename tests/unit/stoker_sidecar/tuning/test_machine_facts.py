"""Facts for rules about a machine, and about its connection to each store."""

import pytest

from stoker_sidecar.agent.learning.tuning_subjects import StoreRates
from stoker_sidecar.linux.hardware import Machine
from stoker_sidecar.tuning.machine_facts import MachineFacts
from stoker_tuning.rules.facts import SystemFacts

MB = 1_000_000


def test_facts_are_those_of_the_machine() -> None:
    facts = MachineFacts(Machine(memory=64 << 30, gpus=8, network=1250 * MB), lambda: 500 << 30)
    assert facts.system() == SystemFacts(64 << 30, 8, 1250 * MB, 500 << 30)


def test_what_is_not_known_is_no_fact() -> None:
    assert MachineFacts(Machine(), lambda: 0).system() == SystemFacts()


@pytest.mark.parametrize(("now", "seen"), [(1050, 1000), (950, 1000), (1200, 1200), (800, 800)])
def test_the_caches_room_is_another_one_when_it_has_changed_by_a_tenth(now: int, seen: int) -> None:
    room = [1000]
    facts = MachineFacts(Machine(), lambda: room[0])
    facts.system()
    room[0] = now
    assert facts.system().disk == seen


def warmed(seconds: int, *rates: float | None) -> StoreRates:
    """Record a warm-up of ``seconds``, with these rates in turn, one per second."""
    found = StoreRates()
    for second in range(seconds + 1):
        found.saw("u1", rates[second % len(rates)], float(second))
    return found


def test_the_best_rate_is_known_after_five_seconds_of_warming_up() -> None:
    assert (warmed(4, 80 * MB).best("u1"), warmed(5, 20 * MB, 83 * MB).best("u1")) == (None, 80 * MB)


def test_what_is_limited_or_asked_for_by_readers_says_nothing_of_the_store() -> None:
    assert warmed(100, None).best("u1") is None


def test_what_comes_under_a_limit_is_no_part_of_these_seconds() -> None:
    rates = warmed(3, 80 * MB)
    for second in range(4, 100):
        rates.saw("u1", None, float(second))
    assert rates.best("u1") is None


def test_a_long_time_without_a_look_is_no_long_warm_up() -> None:
    rates = StoreRates()
    for second in (0.0, 1000.0):
        rates.saw("u1", MB, second)
    assert rates.best("u1") is None


def test_a_rate_is_of_one_dataset_and_is_forgotten_with_it() -> None:
    rates = warmed(30, 80 * MB)
    assert rates.known() == {"u1": 80 * MB}
    rates.retain(["u2"])
    assert rates.known() == {}


def test_what_was_known_before_a_restart_counts_at_once() -> None:
    rates = StoreRates()
    rates.knew("u1", 80 * MB)
    rates.saw("u1", 3 * MB, 0.0)
    assert rates.best("u1") == 80 * MB

"""Workloads that each read all of the same data are a sweep; ranks that divide it are not."""

from stoker_tuning.training.sweeps import siblings
from stoker_tuning.training.unit_set import UnitSet
from tests.unit.stoker_tuning.training.simulation import shuffled

UNITS = 1000


def read(files: list[int]) -> UnitSet:
    made = UnitSet()
    for file in files:
        made.add(file)
    return made


def test_four_that_shuffle_by_themselves_are_a_sweep() -> None:
    coverage = {seed: read(shuffled(range(UNITS), seed)[:200]) for seed in range(4)}
    assert siblings(coverage, UNITS) == dict.fromkeys(range(4), 3)


def test_ranks_of_one_training_are_none() -> None:
    order = shuffled(range(UNITS), 1)
    coverage = {rank: read(order[rank::4][:200]) for rank in range(4)}
    assert siblings(coverage, UNITS) == dict.fromkeys(range(4), 0)


def test_too_little_read_says_nothing() -> None:
    assert siblings({seed: read(shuffled(range(UNITS), seed)[:50]) for seed in range(4)}, UNITS) == {}


def test_two_are_no_sweep() -> None:
    coverage = {seed: read(shuffled(range(UNITS), seed)) for seed in range(2)}
    assert siblings(coverage, UNITS) == {0: 0, 1: 0}

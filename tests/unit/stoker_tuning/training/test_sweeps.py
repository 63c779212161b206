"""Workloads that each read all of the same data are a sweep. Ranks that share it are not."""

import random

import pytest

from stoker_tuning.training.sweeps import EpochRead, SweepWatch, siblings
from stoker_tuning.training.unit_set import UnitSet
from stoker_tuning.training.workload import WorkloadTracker
from stoker_tuning.vocabulary import TrainingPhase
from tests.support.cases import cases
from tests.unit.stoker_tuning.training.simulation import layout, opens, shuffled

UNITS = 1000


def read(files: list[int], number: int = 0, most: float | None = None) -> EpochRead:
    made = UnitSet()
    for file in files:
        made.add(file)
    return EpochRead(number, made, len(files) / UNITS if most is None else most)


ORDER = shuffled(range(UNITS), 1)


@cases(
    "coverage, others",
    three_of_four_that_shuffle_by_themselves=([read(shuffled(range(UNITS), seed)[:200]) for seed in range(4)], 3),
    none_of_four_ranks_of_one_training=([read(ORDER[rank::4][:200]) for rank in range(4)], 0),
    two_of_three_that_read_all_in_different_epochs=(
        [read(shuffled(range(UNITS), seed)[:100], seed, 1.0) for seed in range(3)],
        2,
    ),
    none_of_two=([read(shuffled(range(UNITS), seed)) for seed in range(2)], 0),
)
def test_a_workload_has_siblings(coverage: list[EpochRead], others: int) -> None:
    assert siblings(dict(enumerate(coverage)), UNITS) == dict.fromkeys(range(len(coverage)), others)


def test_a_rank_that_is_an_epoch_ahead_is_none() -> None:
    first, second = shuffled(range(UNITS), 1), shuffled(range(UNITS), 2)
    coverage = {rank: read(first[rank::3]) for rank in range(2)} | {2: read(second[2::3][:100], 1, 1 / 3)}
    assert not any(siblings(coverage, UNITS).values())


def test_too_little_read_says_nothing() -> None:
    assert siblings({seed: read(shuffled(range(UNITS), seed)[:50]) for seed in range(4)}, UNITS) == {}


def swept(files: int, trackers: dict[int, WorkloadTracker], sweep: SweepWatch[int]) -> None:
    """Let each tracker read this number of files in a separate order, in turns of ten."""
    orders = {seed: shuffled(range(UNITS), seed)[:files] for seed in trackers}
    for at in range(0, files, 10):
        for seed, tracker in trackers.items():
            for access in opens(orders[seed][at : at + 10], at / 10):
                tracker.saw(access)
            sweep.look(trackers)


@pytest.mark.parametrize(("files", "phase"), [(90, TrainingPhase.TRAINING), (150, TrainingPhase.HYPERPARAM_TUNING)])
def test_a_sweep_is_known_as_soon_as_enough_was_read(files: int, phase: TrainingPhase) -> None:
    trackers = {seed: WorkloadTracker(layout(train=UNITS)) for seed in range(4)}
    swept(files, trackers, SweepWatch())
    assert {one.phase.phase for one in trackers.values()} == {phase}


def test_who_is_left_alone_is_no_sweep_any_more() -> None:
    trackers, sweep = {seed: WorkloadTracker(layout(train=UNITS)) for seed in range(4)}, SweepWatch[int]()
    swept(200, trackers, sweep)
    sweep.look({0: trackers[0]})
    assert trackers[0].phase.phase is TrainingPhase.TRAINING


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_ranks_that_are_not_in_step_never_look_like_a_sweep(ranks: int, seed: int) -> None:
    noise, sweep = random.Random(seed), SweepWatch[int]()
    trackers = {rank: WorkloadTracker(layout(train=UNITS)) for rank in range(ranks)}
    orders = {
        rank: [file for epoch in range(4) for file in shuffled(range(UNITS), epoch)[rank::ranks]] for rank in trackers
    }
    read = dict.fromkeys(trackers, 0)
    seen = set()
    while waiting := [rank for rank in trackers if read[rank] < len(orders[rank])]:
        behind = min(read[rank] for rank in waiting)
        rank = noise.choice([rank for rank in waiting if read[rank] <= behind + 64])
        for access in opens(orders[rank][read[rank] : read[rank] + 16], sum(read.values()) / 100):
            trackers[rank].saw(access)
        read[rank] += 16
        sweep.look(trackers)
        seen.add(trackers[rank].phase.phase)
    assert seen == {TrainingPhase.TRAINING}
    assert {one.counted_epochs for one in trackers.values()} == {3}

"""Epochs are counted by coverage: exact if all reads are seen, and within the stated error for a sample."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_tuning.training.accesses import AccessSampling, SamplingMethod
from stoker_tuning.training.epochs import EpochCounter, EpochMethod
from tests.unit.stoker_tuning.training.simulation import shuffled


def epochs(counter: EpochCounter, files: int, count: int) -> None:
    for epoch in range(count):
        for index, file in enumerate(shuffled(range(files), epoch)):
            counter.read(1.0)
            counter.touch(file, epoch * files + index)


@given(st.integers(20, 400), st.integers(1, 5), st.floats(0.2, 1.0), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_number_and_progress_are_exact_when_all_is_seen(files: int, whole: int, part: float, seed: int) -> None:
    counter = EpochCounter(files)
    epochs(counter, files, whole)
    last = shuffled(range(files), seed + 1000)[: max(8, int(part * files))]
    for file in last:
        counter.touch(file, 0.0)
    assert counter.at.number == whole
    assert counter.at.progress == pytest.approx(len(last) / files, abs=1 / files)
    assert counter.at.error == 0


def test_an_epoch_is_noticed_within_four_files() -> None:
    counter = EpochCounter(1000)
    epochs(counter, 1000, 1)
    begun = [counter.touch(file, 0.0) for file in shuffled(range(1000), 9)]
    assert begun.index(True) < 4


def test_a_file_that_is_read_twice_is_no_new_epoch() -> None:
    counter = EpochCounter(1000)
    for file in range(500):
        counter.touch(file, 0.0)
        if file % 100 == 99:
            counter.touch(file // 2, 0.0)
    assert counter.at.number == 0


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_a_node_of_several_counts_its_share_of_each_epoch(nodes: int) -> None:
    counter = EpochCounter(4000, node_share=1 / nodes)
    for epoch in range(4):
        for file in shuffled(range(4000), epoch)[::nodes]:
            counter.touch(file, 0.0)
    assert counter.at.number == 3
    assert 1 - counter.at.progress <= counter.at.error < 0.1


def test_an_unknown_share_is_learnt_from_the_first_epoch() -> None:
    counter = EpochCounter(4000)
    for epoch in range(3):
        for file in shuffled(range(4000), epoch)[::4]:
            counter.touch(file, 0.0)
    assert counter.at.progress == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.03])
def test_sampled_files_tell_the_epoch_within_the_stated_error(share: float) -> None:
    wrong = 0
    for seed in range(20):
        watched = set(random.Random(seed).sample(range(10_000), int(10_000 * share)))
        counter = EpochCounter(10_000, AccessSampling(SamplingMethod.FILES, share))
        for epoch in range(2):
            for file in shuffled(range(10_000), 100 * seed + epoch)[: 10_000 if epoch < 1 else 5_000]:
                if file in watched:
                    counter.touch(file, 0.0)
        assert counter.at.number == 1
        wrong += abs(counter.at.progress - 0.5) > counter.at.error
    assert wrong <= 3  # two standard errors: one in twenty exceeds them


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_sampled_time_tells_the_epoch_within_the_stated_error(share: float) -> None:
    wrong = 0
    for seed in range(20):
        noise = random.Random(seed)
        counter = EpochCounter(10_000, AccessSampling(SamplingMethod.TIME, share))
        for epoch in range(3):
            for file in shuffled(range(10_000), 100 * seed + epoch)[: 10_000 if epoch < 2 else 5_000]:
                if noise.random() < share:
                    counter.touch(file, 0.0)
        assert counter.at.number == 2
        wrong += abs(counter.at.progress - 0.5) > counter.at.error
    assert wrong <= 3


def test_a_duty_cycle_states_what_passes_unwatched() -> None:
    counter = EpochCounter(10_000, AccessSampling(SamplingMethod.TIME, 0.2, cycle=10.0))
    order = shuffled(range(10_000), 1)[:5_000]
    for index, file in enumerate(order):
        if index / 100 % 10 < 2:  # 100 files per second, two seconds of ten
            counter.touch(file, index / 100)
    assert abs(counter.at.progress - 0.5) <= counter.at.error < 0.2


def test_draws_with_replacement_are_counted_by_volume() -> None:
    noise = random.Random(3)
    counter = EpochCounter(1000)
    for index in range(3500):
        counter.read(1.0)
        counter.touch(noise.randrange(1000), index)
    assert (counter.at.number, counter.at.method) == (3, EpochMethod.VOLUME)
    assert counter.at.progress == pytest.approx(0.5, abs=0.01)


def test_ten_million_files_take_three_bitmaps_at_most() -> None:
    counter = EpochCounter(10_000_000)
    for file in range(0, 10_000_000, 4096):
        counter.touch(file, 0.0)
    for file in range(0, 10_000_000, 8192):
        counter.touch(file, 0.0)
    assert counter.memory <= 3 * 10_000_000 / 8 * 1.01

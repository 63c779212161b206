"""Warm files come first. A quality ratio weights shares so that all samples come equally often."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_client import QualityRatioSampler, WarmFirstSampler
from tests.unit.stoker_client.samplers import Plan, plans


@given(plans(("warm",)), st.integers(0, 5))
def test_a_rank_has_the_samples_of_the_plain_order_the_warm_ones_first(plan: Plan, epoch: int) -> None:
    plain = Plan("global", plan.length, plan.seed, plan.world_size, plan.drop_last).epoch(epoch)
    warm = plan.warm or (lambda _: False)
    assert plan.epoch(epoch) == [sorted(rank, key=lambda index: not warm(index)) for rank in plain]


def test_what_is_warm_is_asked_when_an_epoch_begins() -> None:
    known: set[int] = set()
    sampler = WarmFirstSampler(10, known.__contains__, rank=0, world_size=1)
    plain = list(sampler)
    known.add(plain[-1])
    assert list(sampler) == [plain[-1], *plain[:-1]]


@settings(max_examples=40)
@given(plans(("quality",)).filter(lambda plan: plan.kind == "quality"), st.integers(1, 30))
def test_over_a_run_each_sample_comes_equally_often_give_or_take_one(plan: Plan, epochs: int) -> None:
    counts = Counter(dict.fromkeys(range(plan.length), 0))
    for epoch in range(epochs):
        counts.update(index for rank in plan.epoch(epoch) for index in rank)
        assert max(counts.values()) - min(counts.values()) <= 1


@given(st.integers(2, 300), st.integers(1, 99), st.integers(1, 4), st.integers(0, 20))
def test_an_epoch_has_its_share_and_no_sample_twice(length: int, percent: int, world: int, epoch: int) -> None:
    wanted = length * percent / 100
    if not world <= wanted <= length - world:
        return
    ranks = Plan("quality", length, 1, world, ratio=percent / 100).epoch(epoch)
    seen = [index for rank in ranks for index in rank]
    assert len(set(seen)) == len(seen)
    assert abs(len(seen) - wanted) < world


def test_the_next_epoch_has_another_share() -> None:
    plan = Plan("quality", 100, 1, 1, ratio=0.5)
    first, second, third = (set(plan.epoch(epoch)[0]) for epoch in range(3))
    assert not first & second
    assert third not in (first, second)


def test_cycles_of_a_ratio_are_of_one_world_size() -> None:
    state = QualityRatioSampler(100, 0.5, rank=0, world_size=2).state_dict()
    with pytest.raises(ValueError, match="world_size is 2"):
        QualityRatioSampler(100, 0.5, rank=0, world_size=4).load_state_dict(state)

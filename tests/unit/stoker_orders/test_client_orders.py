"""The orders of stoker-client's samplers are predicted without the package, and followed from any start of a job."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker_client import GlobalShuffleSampler, GroupShuffleSampler, QualityRatioSampler
from stoker_client.sampler import EpochSampler
from stoker_orders.following import OrderFollower, OrderState, ReadSample
from stoker_orders.job_order import JobOrder
from stoker_orders.loader_schedule import rank_order
from stoker_orders.predictors.client_orders import permutation
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import EpochStart, SamplingPlan
from tests.support.cases import cases
from tests.unit.stoker_client.samplers import Plan, plans

_NAMES = {
    "global": SamplerName.STOKER_SHUFFLE,
    "group": SamplerName.STOKER_GROUP_SHUFFLE,
    "quality": SamplerName.STOKER_QUALITY_RATIO,
}


def predicted(plan: SamplingPlan, samples: int, epoch: int, rank: int) -> list[int]:
    """Return the indexes that a rank reads in an epoch, computed by a node with only this rank."""
    order = JobOrder(plan, FileMap(range(samples)), (rank,))
    computed = order.epoch(epoch)
    follower = OrderFollower(order)
    follower.give(computed)
    return rank_order(computed.samples, follower.loading, rank)


def planned(made: Plan, **changed: Any) -> SamplingPlan:
    return SamplingPlan(
        _NAMES[made.kind],
        made.seed,
        ranks=made.world_size,
        drop_last=made.drop_last,
        group=made.groups,
        reservoir=made.reservoir,
        ratio=Fraction(made.ratio).limit_denominator(1000),
        **changed,
    )


def test_the_permutation_is_the_specified_one() -> None:
    assert list(permutation(10, "global", 1, 0)) == [1, 8, 6, 7, 3, 2, 0, 9, 5, 4]


@given(plans(tuple(_NAMES)), st.integers(0, 30))
def test_each_rank_reads_what_is_predicted(made: Plan, epoch: int) -> None:
    for rank, truth in enumerate(replace(made, warm=None).epoch(epoch)):
        assert predicted(planned(made), made.length, epoch, rank) == truth


@cases(
    "name, sampler",
    ("global", GlobalShuffleSampler(65_537, seed=2**53 - 1, rank=2, world_size=3)),
    ("group", GroupShuffleSampler(65_537, 37, seed=5, rank=2, world_size=3)),
    ("quality", QualityRatioSampler(65_537, 0.3, seed=-4, rank=2, world_size=3)),
)
def test_more_numbers_than_one_text_gives_are_the_same(name: str, sampler: EpochSampler) -> None:
    sampler.set_epoch(4)
    made = Plan(name, 65_537, sampler.seed, 3, groups=37, reservoir=256, ratio=0.3)
    assert predicted(planned(made), 65_537, 4, 2) == list(sampler)


@given(plans(("global",)), st.integers(0, 3), st.data())
def test_an_epoch_that_other_ranks_began_is_predicted_from_there_on(
    made: Plan, epoch: int, data: st.DataObject
) -> None:
    began = made.make(0, epoch)
    state = began.state_dict(data.draw(st.integers(0, len(began))))
    ranks = data.draw(st.integers(1, 5))
    for rank in range(ranks):
        sampler = GlobalShuffleSampler(
            made.length, seed=made.seed, rank=rank, world_size=ranks, drop_last=made.drop_last
        )
        sampler.load_state_dict(state)
        place = sampler.state_dict()
        if place["base"] < made.length:
            start = EpochStart(epoch, place["base"], place["position"])
            plan = SamplingPlan(
                SamplerName.STOKER_SHUFFLE, made.seed, ranks=ranks, drop_last=made.drop_last, start=start
            )
            assert predicted(plan, made.length, epoch, rank)[place["position"] :] == list(sampler)


def reads_of(sampler: EpochSampler, epoch: int, files: int) -> list[ReadSample]:
    sampler.set_epoch(epoch)
    return [ReadSample(index) for index in sampler]


@cases(
    "sampler, changed",
    (GlobalShuffleSampler(6_000, seed=3, rank=1, world_size=2), {"sampler": SamplerName.STOKER_SHUFFLE}),
    (
        GroupShuffleSampler(6_001, 16, reservoir=64, seed=3, rank=1, world_size=2),
        {"sampler": SamplerName.STOKER_GROUP_SHUFFLE, "group": 16, "reservoir": 64},
    ),
    (
        QualityRatioSampler(6_000, 0.7, seed=3, rank=1, world_size=2),
        {"sampler": SamplerName.STOKER_QUALITY_RATIO, "ratio": Fraction(7, 10)},
    ),
)
def test_they_are_followed_from_epoch_to_epoch(sampler: EpochSampler, changed: dict[str, Any]) -> None:
    plan = SamplingPlan(seed=3, ranks=2, rank=1, epochs=9, start=EpochStart(2), **changed)
    follower = OrderFollower(JobOrder(plan, FileMap(range(sampler.length)), (1,)))
    for epoch in (2, 3, 4):
        reads = reads_of(sampler, epoch, sampler.length)
        for start in range(0, len(reads), 50):
            while (wanted := follower.wanted) is not None:
                follower.give(follower.order.epoch(wanted))
            follower.saw(reads[start : start + 50])
    assert (follower.state, follower.epoch, follower.found_again) == (OrderState.KNOWN, 4, 0)
    assert (follower.agreement or 0) >= 99


def test_set_epoch_that_is_not_called_is_an_order_for_all_epochs() -> None:
    plan = SamplingPlan(SamplerName.STOKER_SHUFFLE, 3, reseeds=False)
    order = JobOrder(plan, FileMap(range(100)), (0,))
    assert order.is_same_each_epoch
    assert order.epoch(7).samples == SAMPLERS[SamplerName.STOKER_SHUFFLE].order(100, 3, 0)


def test_a_share_of_nothing_breaks_nothing() -> None:
    plan = SamplingPlan(SamplerName.STOKER_GROUP_SHUFFLE, 3, ranks=8, drop_last=True)
    follower = OrderFollower(JobOrder(plan, FileMap(range(5)), (1,)))
    follower.give(follower.order.epoch(0))
    follower.saw([ReadSample(number) for number in range(5)] * 20)
    assert not list(follower.ahead())

"""A job reports where it starts at each epoch and after each restart. Only then it is followed from there."""

from functools import cache

import pytest

from stoker_orders.following import OrderFollower, OrderState, ReadSample
from stoker_orders.job_order import JobOrder
from stoker_orders.predictors.samplers import SamplerName
from stoker_orders.sample_map import FileMap
from stoker_orders.sampling_plan import EpochStart, SamplingPlan
from stoker_sidecar.agent.orders.followed_order import is_restarted

FILES = 4_000
PLAN = SamplingPlan(SamplerName.TORCH_DISTRIBUTED, seed=3, epochs=20)


def following(epoch: int, step: int) -> OrderFollower:
    """Return a follower whose readers have reached this step."""
    follower = OrderFollower(JobOrder(PLAN, FileMap(range(FILES)), (0,)))
    follower.give(follower.order.epoch(epoch))
    for start in range(0, step, 50):  # a sample of the reads
        follower.saw(ReadSample(sample) for sample in follower.order.epoch(epoch).samples[start : start + 50])
    assert not follower.is_searching
    return follower


@cache
def in_the_middle_of_epoch_five() -> OrderFollower:
    return following(5, 2_000)


@pytest.mark.parametrize(
    ("before", "said", "anew"),
    [
        (EpochStart(5), EpochStart(5, 0, 500), True),  # back in the same epoch
        (EpochStart(5), EpochStart(5, 0, 1_960), False),  # already at that position
        (EpochStart(5), EpochStart(4, 0, 3_000), True),
        (EpochStart(4), EpochStart(5), False),  # a late report
        (EpochStart(3), EpochStart(4), False),  # a very late report
        (EpochStart(7), EpochStart(5), False),  # its reads came before the report
        (EpochStart(5), EpochStart(6), True),
        (EpochStart(5), EpochStart(8), True),
    ],
)
def test_a_job_in_the_middle_of_epoch_five_has_begun_anew(before: EpochStart, said: EpochStart, anew: bool) -> None:
    assert is_restarted(in_the_middle_of_epoch_five(), before, said) is anew


def test_a_job_at_the_end_of_an_epoch_goes_on_to_the_next() -> None:
    assert not is_restarted(following(5, 3_500), EpochStart(5), EpochStart(6))


def test_a_job_of_which_no_read_was_seen_is_where_it_says() -> None:
    follower = OrderFollower(JobOrder(PLAN, FileMap(range(FILES)), (0,)))
    follower.give(follower.order.epoch(0))
    assert is_restarted(follower, EpochStart(0), EpochStart(1))


def test_a_job_that_is_looked_for_is_where_it_says() -> None:
    follower = following(5, 200)
    follower.saw(ReadSample(sample) for sample in range(64))
    assert follower.is_searching
    assert is_restarted(follower, EpochStart(4), EpochStart(5))


def test_what_is_wrong_stays_so() -> None:
    follower = following(5, 200)
    follower.state = OrderState.WRONG
    assert not is_restarted(follower, EpochStart(5), EpochStart(3))

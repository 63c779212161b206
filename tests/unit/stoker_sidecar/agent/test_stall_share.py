"""The share of its time that a workload waits, from two samples."""

import pytest

from stoker_api.node_workload import StallSource
from stoker_sidecar.agent.core.stall import Stall, StallSample, stall_between


def sample(at: float, source: StallSource = StallSource.PRESSURE, **waited: float) -> StallSample:
    return StallSample(source, at, waited)


def test_a_stall_is_the_time_waited_over_the_time_passed() -> None:
    assert stall_between(sample(10.0, pod=4.0), sample(20.0, pod=7.0)) == Stall(0.3, StallSource.PRESSURE)


def test_of_several_processes_the_one_that_waited_longest_counts() -> None:
    before, after = (
        sample(at, StallSource.TASK_DELAY, **rows)
        for at, rows in ((0.0, {"1": 0, "2": 5}), (10.0, {"1": 2, "2": 10, "3": 9}))
    )
    assert stall_between(before, after) == Stall(0.5, StallSource.TASK_DELAY)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, sample(1.0, pod=1.0)),
        (sample(0.0, pod=0.0), None),
        (sample(0.0, pod=0.0), sample(0.1, pod=0.1)),
        (sample(0.0, pod=5.0), sample(10.0, pod=1.0)),
        (sample(0.0, one=1.0), sample(10.0, other=2.0)),
        (sample(0.0, StallSource.FUSE, pod=0.0), sample(10.0, pod=1.0)),
    ],
)
def test_samples_that_do_not_belong_together_say_nothing(before: StallSample | None, after: StallSample | None) -> None:
    assert stall_between(before, after) is None


def test_more_than_all_of_the_time_is_all_of_it() -> None:
    assert stall_between(sample(0.0, pod=0.0), sample(1.0, pod=1.01)) == Stall(1.0, StallSource.PRESSURE)

"""The stall share of a workload, from two samples."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker_api.node_caches.node_workload import StallSource
from stoker_sidecar.agent.core.stall import FuseWaits, Stall, StallSample, StallSeconds, stall_between
from stoker_sidecar.agent.observation.loaders import stall_meter
from stoker_sidecar.agent.observation.loaders.loader_sampler import LoaderSampler
from stoker_sidecar.agent.observation.loaders.stall_meter import StallMeter
from stoker_sidecar.volumes.core.publish import VersionKey
from tests.support.cases import cases


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


@cases(
    "before, after",
    (None, sample(1.0, pod=1.0)),
    (sample(0.0, pod=0.0), None),
    (sample(0.0, pod=0.0), sample(0.1, pod=0.1)),
    (sample(0.0, pod=5.0), sample(10.0, pod=1.0)),
    (sample(0.0, one=1.0), sample(10.0, other=2.0)),
    (sample(0.0, StallSource.FUSE, pod=0.0), sample(10.0, pod=1.0)),
)
def test_samples_that_do_not_belong_together_say_nothing(before: StallSample | None, after: StallSample | None) -> None:
    assert stall_between(before, after) is None


def test_more_than_all_of_the_time_is_all_of_it() -> None:
    assert stall_between(sample(0.0, pod=0.0), sample(1.0, pod=1.01)) == Stall(1.0, StallSource.PRESSURE)


VERSION: VersionKey = ("uid-dataset", "digest")


class SampledLoaders(LoaderSampler):
    """Loaders whose consumers waited for the given times."""

    known: Mapping[str, StallSeconds] = {}

    @property
    def seconds(self) -> Mapping[str, StallSeconds]:
        return self.known


def fuse_meter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> StallMeter:
    """Make a meter of a node without delay accounting."""
    monkeypatch.setattr(stall_meter, "delays_counted", lambda: False)
    return StallMeter(folder, loaders=SampledLoaders())


@cases(
    "samples, counted",
    intervals_add_up=([(10.0, 3.0), (20.0, 8.0), (30.0, 8.0)], StallSeconds(5.0, 20.0)),
    of_any_length=([(10.0, 3.0), (12.5, 4.0), (30.0, 8.0)], StallSeconds(5.0, 20.0)),
    a_node_that_slept=([(10.0, 3.0), (7200.0, 9.0), (7210.0, 12.0)], StallSeconds(3.0, 10.0)),
    a_server_that_was_restarted=([(10.0, 8.0), (20.0, 1.0), (30.0, 3.0)], StallSeconds(2.0, 10.0)),
)
def test_what_a_source_counts_adds_up(
    samples: list[tuple[float, float]], counted: StallSeconds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = fuse_meter(tmp_path, monkeypatch)
    for at, waited in samples:
        meter.measure({"uid-a": VERSION}, {VERSION: FuseWaits(at, waited)})
    assert meter.seconds == {"uid-a": {"fuse": counted}}


def test_the_consumer_of_a_loader_is_counted_next_to_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_meter, "delays_counted", lambda: False)
    loaders = SampledLoaders()
    meter = StallMeter(tmp_path, loaders=loaders)
    loaders.known = {"uid-a": StallSeconds(1.0, 9.0), "uid-gone": StallSeconds(1.0, 9.0)}
    for at in (10.0, 20.0):
        meter.measure({"uid-a": VERSION}, {VERSION: FuseWaits(at, at)})
    assert meter.seconds == {"uid-a": {"fuse": StallSeconds(10.0, 10.0), "consumer": StallSeconds(1.0, 9.0)}}


@cases(
    "cgroup2, delays, cause",
    (False, False, "no stall source on node-1: cgroup v1, kernel.task_delayacct is 0"),
    (False, True, "no stall source on node-1: cgroup v1, its processes are not seen"),
    (True, True, "no stall source on node-1: its processes are not seen"),
)
def test_what_a_node_lacks_to_count_waits_is_told(
    cgroup2: bool, delays: bool, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cgroup2:
        (tmp_path / "cgroup.controllers").touch()
    monkeypatch.setattr(stall_meter, "delays_counted", lambda: delays)
    monkeypatch.setattr(stall_meter, "task_delays", lambda uid: {})
    meter = StallMeter(tmp_path, loaders=SampledLoaders())
    assert meter.why_not("uid-a", "node-1") == "it ended before node-1 measured its waits"
    meter.measure({"uid-a": None}, {})
    assert meter.why_not("uid-a", "node-1") == cause

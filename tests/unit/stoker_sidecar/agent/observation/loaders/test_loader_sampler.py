"""The thread that samples loaders: the pods with figures, and the handling of a pod that blocks it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from stoker_api.node_caches.node_workload import StallSource
from stoker_sidecar.agent.core.stall import FuseWaits, Stall, StallSeconds
from stoker_sidecar.agent.observation.loaders.loader_consumers import PodConsumers
from stoker_sidecar.agent.observation.loaders.loader_sampler import LoaderSampler
from stoker_sidecar.agent.observation.loaders.loader_waits import ConsumerWait, LoaderTally
from stoker_sidecar.agent.observation.loaders.stall_meter import StallMeter
from tests.support.waiting import wait_until

HANGS = "uid-hangs"


class FakeConsumers(PodConsumers):
    """A pod whose consumer always waits for data. Sampling process 666 blocks."""

    def __init__(self, pod_uid: str) -> None:
        super().__init__(pod_uid)
        self.let_go = threading.Event()
        self.looks = 0
        self.known = 0
        self.tally = LoaderTally()

    def __len__(self) -> int:
        return self.known

    @property
    def tallies(self) -> list[LoaderTally]:
        return [self.tally]

    def find(self, readers: Sequence[int], now: float) -> None:
        self.known = len(readers)

    def sample(self, now: float) -> None:
        self.looks += 1
        self.tally.add(ConsumerWait.QUEUE, now)
        if self._pod == HANGS:
            self.let_go.wait()


class Pods:
    """Makes pods and records them."""

    def __init__(self) -> None:
        self.made: dict[str, FakeConsumers] = {}

    def __call__(self, pod_uid: str) -> FakeConsumers:
        self.made[pod_uid] = FakeConsumers(pod_uid)
        return self.made[pod_uid]


@pytest.fixture
def pods() -> Iterator[Pods]:
    made = Pods()
    yield made
    for pod in made.made.values():
        pod.let_go.set()


def sampler(pods: Pods, clock: Callable[[], float]) -> LoaderSampler:
    return LoaderSampler(rate=200.0, budget=1.0, clock=clock, pods=pods)


def threads() -> int:
    return sum(thread.name == "loader-sampler" for thread in threading.enumerate())


def test_nobody_is_sampled_and_no_thread_runs_until_somebody_reads(pods: Pods) -> None:
    one = sampler(pods, lambda: 0.0)
    one.watch({"uid-a": []})
    assert (threads(), dict(one.stalls)) == (0, {})


def test_a_pod_has_a_figure_until_it_is_watched_no_more(pods: Pods) -> None:
    one = sampler(pods, lambda: 0.0)
    one.watch({"uid-a": [7]})
    wait_until(lambda: "uid-a" in one.stalls)
    assert one.stalls["uid-a"].share == 1.0
    one.watch({"uid-b": [8]})
    wait_until(lambda: set(one.stalls) == {"uid-b"})
    one.watch({})
    wait_until(lambda: not one.stalls)
    one.stop()
    wait_until(lambda: not threads())


def test_a_pod_whose_consumer_ends_has_no_figure_any_more(pods: Pods) -> None:
    one = sampler(pods, lambda: 0.0)
    one.watch({"uid-a": [7]})
    wait_until(lambda: "uid-a" in one.stalls)
    pods.made["uid-a"].tally = LoaderTally()
    pods.made["uid-a"].known = 0
    wait_until(lambda: not one.stalls)
    one.stop()


def test_the_consumer_is_believed_before_what_the_kernel_counts(pods: Pods, tmp_path: Path) -> None:
    one, version = sampler(pods, lambda: 0.0), ("uid-dataset", "digest")
    meter, mounted = StallMeter(tmp_path, loaders=one), {"uid-a": version, "uid-b": version}
    meter.watch({"uid-a": [7]})
    wait_until(lambda: "uid-a" in one.stalls)
    meter.measure(mounted, {version: FuseWaits(10.0, 0.0)})
    stalls = meter.measure(mounted, {version: FuseWaits(20.0, 5.0)})
    meter.stop()
    assert stalls == {"uid-a": Stall(1.0, StallSource.CONSUMER, reads=0.5), "uid-b": Stall(0.5, StallSource.FUSE)}


@pytest.mark.expected_logs("blocks the sampling")
def test_whoever_holds_up_the_sampler_loses_his_figure_and_others_have_theirs(
    pods: Pods, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    one = sampler(pods, lambda: now)
    one.watch({HANGS: [666], "uid-b": [8]})
    wait_until(lambda: HANGS in pods.made and pods.made[HANGS].looks > 0)
    now = float("inf")
    one.watch({HANGS: [666], "uid-b": [8]})
    assert f"pod {HANGS} blocks" in caplog.text
    now = 0.0
    wait_until(lambda: set(one.stalls) == {"uid-b"})
    one.stop()


def test_what_consumers_waited_only_grows() -> None:
    pod = FakeConsumers("uid-a")
    for second in range(11):
        pod.tally.add(ConsumerWait.QUEUE, float(second))
    before = pod.seconds()
    pod.tally = LoaderTally()
    assert before == pod.seconds() == StallSeconds(10.0, 10.0)

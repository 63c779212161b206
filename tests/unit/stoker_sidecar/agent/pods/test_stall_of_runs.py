"""The stall of whole runs, as in `stoker report`, compared with the seconds that the program counted.

On a virtual clock, the pod reports by the listener's figures and wire, and its node keeps the account, as in a sidecar.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.goodput import EndedPod, goodput
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.pods.pod_accounts import LAST_REPORT_SECONDS, AccountSources, PodAccounts
from stoker_sidecar.agent.pods.report_link import ReportedWorkloads
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.wire.reports_protocol import Heard, decode_heard, encode
from stoker_tuning.reports.figures import ReportFigures
from stoker_tuning.reports.line import parse_line
from tests.fakes.volumes import DIGEST, UID, publish_request
from tests.support.waiting import eventually

POD = "uid-trainer-0"
POINTS = 0.02
BATCH = 0.4  # seconds
Shape = Callable[[float], float]  # finished share of the run -> share of a batch that waits
LENGTHS = (30, 45, 68, 120, 300, 600)  # seconds


def step(until: float, high: float, low: float) -> Shape:
    return lambda over: high if over < until else low


SHAPES: dict[str, Shape] = {
    "cold": lambda over: max(0.02, 0.95 - 1.5 * over),
    "warm": step(0.0, 0.0, 0.125),
    "known order": step(0.2, 0.7, 0.1),
    "wrong order": step(0.3, 0.95, 0.15),
    "slow warm-up": step(0.55, 0.97, 0.03),
    "stalls at the end": step(0.8, 0.02, 0.9),
}


@dataclass(frozen=True)
class Batch:
    """The times of one batch and of its end, in seconds."""

    at: float
    wait: float
    compute: float


def batches(seconds: float, shape: Shape) -> Iterator[Batch]:
    now = 0.0
    while now < seconds:
        wait = BATCH * shape(now / seconds)
        now += BATCH
        yield Batch(now, wait, BATCH - wait)


class ReportingNode:
    """A node with one pod. ``run`` plays a program on it and returns the pod's account."""

    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.path = folder / "pod-accounts.json"
        self.figures = ReportFigures()
        self.volumes: tuple[ReportVolume, ...] = (ReportVolume("csi-1", folder, "vision", "trainer-0", POD),)
        self.mounted: tuple[Published, ...] = (
            Published(publish_request("trainer-0"), UID, DIGEST, Path("/cache/v"), 10, 100, MountMode.NATIVE, False),
        )
        self.begin_agent()

    def all(self) -> tuple[ReportVolume, ...]:
        return self.volumes

    def begin_agent(self) -> None:
        self.reported = ReportedWorkloads(self, lambda: (), lambda: self.now)
        sources = AccountSources(
            mounted=lambda: self.mounted,
            reported=self.reported.summaries,
            seen=dict,
            why_no_stall=lambda uid: "",
            opened=dict,
            rates=dict,
        )
        wall: Callable[[], float] = lambda: 1_800_000_000.0 + self.now  # noqa: E731
        self.accounts = PodAccounts(self.path, NodePlan(lambda: self.now), sources, lambda: self.now, wall)

    def hear(self) -> None:
        heard = Heard({POD: self.figures.summary(self.now)})
        self.reported.take(decode_heard(encode(heard)))

    async def run(self, script: Iterator[Batch], *, with_compute: bool) -> EndedPod:
        await self.accounts.begin()
        begun, ticks = self.now, 0
        for batch in script:
            while ticks < batch.at:
                ticks += 1
                self.now = begun + ticks
                self.hear()
                self.accounts.rows()
            said = {"wait_seconds": batch.wait} | ({"compute_seconds": batch.compute} if with_compute else {})
            self.figures.add(parse_line(json.dumps(said).encode()), begun + batch.at)
            self.now = begun + batch.at
        return self.end()

    async def saved(self) -> None:
        """Run the agent until it has written its file."""
        running = asyncio.create_task(self.accounts.run())
        await eventually(self.path.exists)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    def end(self) -> EndedPod:
        """Remove the pod's volumes. The report volume goes first, as with a kubelet."""
        self.volumes = ()
        self.hear()
        self.mounted = ()
        self.accounts.rows()
        self.now += LAST_REPORT_SECONDS
        (told,) = self.accounts.rows()
        return told


def share(told: EndedPod) -> float:
    found = goodput(None, [told]).stall_share
    assert found is not None
    return found


def truth(seconds: float, shape: Shape) -> float:
    script = list(batches(seconds, shape))
    return sum(batch.wait for batch in script) / sum(batch.wait + batch.compute for batch in script)


@pytest.mark.parametrize("seconds", LENGTHS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("with_compute", [True, False], ids=["waits and computing", "waits alone"])
async def test_the_stall_of_a_run_is_what_its_pod_counted(
    tmp_path: Path, seconds: float, shape: Shape, with_compute: bool
) -> None:
    told = await ReportingNode(tmp_path).run(batches(seconds, shape), with_compute=with_compute)
    assert share(told) == pytest.approx(truth(seconds, shape), abs=POINTS)
    assert told.stall_source == "report"


# Stall counted by a user's programs on a cluster. Stoker then showed 69.8, 36.1, 47.9, 71.2 and 12.8 %.
SEEN = {"cold, no order": 0.502, "cold, known": 0.303, "cold, wrong": 0.349, "slow warm-up": 0.55, "warm": 0.125}


@pytest.mark.parametrize("stalled", SEEN.values(), ids=SEEN)
async def test_runs_of_a_minute_that_begin_cold_are_told_as_they_were(tmp_path: Path, stalled: float) -> None:
    shape = step(stalled, 1.0, 0.0)
    told = await ReportingNode(tmp_path).run(batches(68.0, shape), with_compute=True)
    assert share(told) == pytest.approx(stalled, abs=POINTS)


@pytest.mark.parametrize("part", ["agent", "listener"])
async def test_a_part_of_the_sidecar_that_starts_again_in_between_loses_no_more_than_a_moment(
    tmp_path: Path, part: str
) -> None:
    node, shape = ReportingNode(tmp_path), SHAPES["cold"]
    script = list(batches(120.0, shape))
    for number, batch in enumerate(script):
        line = json.dumps({"wait_seconds": batch.wait, "compute_seconds": batch.compute})
        node.figures.add(parse_line(line.encode()), node.now)
        if number == 0:
            await node.accounts.begin()
        if number % 2:
            node.now = 100.0 + batch.at
            node.hear()
            node.accounts.rows()
        if number == len(script) // 2 and part == "listener":
            node.figures = ReportFigures()
        elif number == len(script) // 2:
            await node.saved()
            node.begin_agent()
            await node.accounts.begin()
    assert share(node.end()) == pytest.approx(truth(120.0, shape), abs=POINTS)

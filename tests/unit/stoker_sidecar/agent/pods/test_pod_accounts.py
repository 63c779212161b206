"""The node's accounts of its pods: reported at their end, kept over restarts of the agent, bounded."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_api.goodput import MOST_ENDED, EndedPod
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_sidecar.agent.core.stall import PodStalls, StallSeconds
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.pods.pod_accounts import LAST_REPORT_SECONDS, TOLD_SECONDS, AccountSources, PodAccounts
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.wire.fetcher_protocol import FETCHED_BYTES, Count, Progress
from stoker_tuning.reports.figures import ReportSummary
from tests.fakes.volumes import DIGEST, UID, publish_request
from tests.support.waiting import eventually

ROW = NodeDatasetStatus(namespace="vision", name="digits", uid=UID, version=DIGEST, bytes=100, warm_bytes=60)


def mounted(pod: str = "trainer-0") -> Published:
    return Published(publish_request(pod), UID, DIGEST, Path("/cache/v"), 10, 100, MountMode.NATIVE, False)


class AccountedNode:
    """A node, its pods, and their accounts. ``pass_time`` moves both clocks."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pod-accounts.json"
        self.now = 1000.0
        self.plan = NodePlan(lambda: self.now)
        self.mounted: list[Published] = []
        self.reported: dict[str, ReportSummary] = {}
        self.seen: dict[str, PodStalls] = {}
        self.came(0)
        self.accounts = self.new_agent()

    def new_agent(self) -> PodAccounts:
        sources = AccountSources(
            mounted=lambda: tuple(self.mounted),
            reported=lambda: self.reported,
            seen=lambda: self.seen,
            why_no_stall=lambda uid: f"no stall source of {uid}",
            opened=dict,
            rates=lambda: {UID: 20.0},
        )
        return PodAccounts(self.path, self.plan, sources, lambda: self.now, lambda: 1_800_000_000.0 + self.now)

    def came(self, total: int) -> None:
        counts = (Count(UID, FETCHED_BYTES, "", total),)
        self.plan.take_progress(Progress(datasets=(ROW.wire(),), counts=counts))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.accounts.rows()

    def end_reporting(self, *pods: str) -> tuple[EndedPod, ...]:
        """End pods that report, and wait for their last reports."""
        self.end(*pods)
        self.pass_time(LAST_REPORT_SECONDS)
        return self.accounts.rows()

    def end(self, *pods: str) -> tuple[EndedPod, ...]:
        self.mounted = [row for row in self.mounted if row.request.pod not in pods]
        return self.accounts.rows()


@pytest.fixture
def node(tmp_path: Path) -> AccountedNode:
    return AccountedNode(tmp_path)


async def test_a_pod_is_told_of_as_soon_as_its_last_volume_is_gone(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted = [mounted()]
    assert node.accounts.rows() == ()
    node.seen = {"uid-trainer-0": {"fuse": StallSeconds(2.5, 10.0)}}
    node.came(30)
    node.pass_time(10)
    (told,) = node.end("trainer-0")
    assert (told.uid, told.warm_bytes, told.origin_bytes) == ("uid-trainer-0", 60, 30)
    assert (told.watched_seconds, told.stalled_seconds, told.saved_seconds) == (10.0, 2.5, 3.0)


SUMMARY = ReportSummary(phase="Training", epoch=3, epochs=4, loss="0.2", lines=9, ranks=1, waited=1.0, watched=10.0)


async def test_a_pods_own_seconds_count_before_what_is_seen(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted, node.seen = [mounted()], {"uid-trainer-0": {"taskDelay": StallSeconds(9.0, 10.0)}}
    node.reported = {"uid-trainer-0": SUMMARY}
    node.accounts.rows()
    node.pass_time(10)
    (told,) = node.end_reporting("trainer-0")
    assert (told.stalled_seconds, told.watched_seconds, told.stall_source) == (1.0, 10.0, "report")
    assert told.last is not None
    assert (told.last.phase, told.last.epoch, told.last.loss) == ("Training", 3, "0.2")


async def test_lines_of_the_last_seconds_count_at_the_end(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted, node.reported = [mounted()], {"uid-trainer-0": SUMMARY}
    node.accounts.rows()
    node.now += 1
    node.reported = {"uid-trainer-0": replace(SUMMARY, waited=4.0, watched=13.0, loss="0.1")}
    (told,) = node.end_reporting("trainer-0")
    assert (told.stalled_seconds, told.watched_seconds, told.last and told.last.loss) == (4.0, 13.0, "0.1")


async def test_a_report_that_comes_after_the_volumes_are_gone_counts_and_its_time_does_not(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted, node.reported = [mounted()], {"uid-trainer-0": SUMMARY}
    node.accounts.rows()
    node.pass_time(10)
    assert node.end("trainer-0") == ()
    node.reported = {"uid-trainer-0": replace(SUMMARY, waited=4.0, watched=13.0, loss="0.1")}
    node.pass_time(1)
    node.pass_time(LAST_REPORT_SECONDS)
    (told,) = node.accounts.rows()
    assert (told.stalled_seconds, told.watched_seconds, told.last and told.last.loss) == (4.0, 13.0, "0.1")
    assert told.mounted_seconds == 10.0


async def test_a_reporting_pod_that_mounts_again_at_once_has_not_ended(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted, node.reported = [mounted()], {"uid-trainer-0": SUMMARY}
    node.accounts.rows()
    node.end("trainer-0")
    node.mounted = [mounted()]
    node.pass_time(LAST_REPORT_SECONDS)
    assert node.accounts.rows() == ()
    (told,) = node.end_reporting("trainer-0")
    assert (told.warm_bytes, told.stalled_seconds) == (60, 1.0)


async def test_the_text_names_why_a_stall_was_not_measured(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted = [mounted()]
    node.pass_time(10)
    assert node.end("trainer-0")[0].stall_missing == "no stall source of uid-trainer-0"


async def saved(node: AccountedNode) -> None:
    """Run the agent until it has written its file."""
    running = asyncio.create_task(node.accounts.run())
    await eventually(node.path.exists)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_restart_of_the_agent_loses_nothing_but_the_time_between(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted = [mounted()]
    node.accounts.rows()
    node.came(30)
    node.pass_time(10)
    await saved(node)
    node.accounts = node.new_agent()
    await node.accounts.begin()
    node.came(50)
    node.pass_time(10)
    (told,) = node.end("trainer-0")
    assert (told.warm_bytes, told.origin_bytes, told.mounted_seconds) == (60, 50, 20.0)


async def test_a_restart_of_the_agent_counts_no_second_of_waiting_twice(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted, node.reported = [mounted()], {"uid-trainer-0": SUMMARY}
    node.pass_time(10)
    await saved(node)
    node.reported, node.accounts = {}, node.new_agent()  # the listener keeps running, and sends its totals again
    await node.accounts.begin()
    node.pass_time(10)
    node.reported = {"uid-trainer-0": replace(SUMMARY, waited=6.0, watched=30.0)}
    node.pass_time(10)
    (told,) = node.end_reporting("trainer-0")
    assert (told.stalled_seconds, told.watched_seconds) == (6.0, 30.0)


async def test_a_pod_that_ended_while_no_agent_ran_is_told_of(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted = [mounted()]
    node.accounts.rows()
    await saved(node)
    node.mounted, node.accounts = [], node.new_agent()
    await node.accounts.begin()
    assert [row.uid for row in node.accounts.rows()] == ["uid-trainer-0"]


@pytest.mark.expected_logs("cannot be read and are lost")
@pytest.mark.parametrize("content", ["{", '{"followed": 3}', '{"ended": [{"pod": "a/b"}]}'])
async def test_a_damaged_file_is_begun_anew(node: AccountedNode, content: str) -> None:
    node.path.write_text(content)
    await node.accounts.begin()
    node.mounted = [mounted()]
    node.accounts.rows()
    assert len(node.end("trainer-0")) == 1


async def test_a_mount_that_is_tried_again_is_no_end(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted = [mounted()]
    node.accounts.rows()
    assert len(node.end("trainer-0")) == 1
    node.mounted = [mounted()]
    assert node.accounts.rows() == ()


async def test_after_an_hour_it_is_told_of_no_more(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted = [mounted()]
    node.accounts.rows()
    node.end("trainer-0")
    node.now += TOLD_SECONDS + 1
    assert (node.accounts.rows(), node.accounts.left_out) == ((), 0)


async def test_more_pods_than_there_is_room_for_are_counted(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted = [mounted(f"p{number}") for number in range(MOST_ENDED + 5)]
    node.accounts.rows()
    told = node.end(*(f"p{number}" for number in range(MOST_ENDED + 5)))
    assert (len(told), node.accounts.left_out) == (MOST_ENDED, 5)


async def test_before_the_mounts_are_known_nobody_has_ended(node: AccountedNode) -> None:
    node.mounted = [mounted()]
    assert node.accounts.rows() == ()
    await node.accounts.begin()
    assert node.accounts.rows() == ()

"""The node's accounts of its pods: told when they end, over restarts of the agent, within bounds."""

import asyncio
from pathlib import Path

import pytest

from stoker_api.dataset import MountMode
from stoker_api.goodput import MOST_ENDED, EndedPod
from stoker_api.node_workload import NodeWorkload, StallSource
from stoker_api.nodecache import NodeDatasetStatus
from stoker_sidecar.agent.core.stall import Stall
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.agent.pod_accounts import TOLD_SECONDS, AccountSources, PodAccounts
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.wire.fetcher_protocol import FETCHED_BYTES, Count, Progress
from tests.fakes.volumes import DIGEST, UID, publish_request
from tests.support.waiting import eventually

ROW = NodeDatasetStatus(namespace="vision", name="digits", uid=UID, version=DIGEST, bytes=100, warm_bytes=60)


def mounted(pod: str = "trainer-0") -> Published:
    return Published(publish_request(pod), UID, DIGEST, Path("/cache/v"), 10, 100, MountMode.NATIVE, False)


class AccountedNode:
    """A node, its pods, and the accounts of them; ``pass_time`` moves both clocks."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pod-accounts.json"
        self.now = 1000.0
        self.plan = NodePlan(lambda: self.now)
        self.mounted: list[Published] = []
        self.reported: list[NodeWorkload] = []
        self.seen: dict[str, Stall] = {}
        self.came(0)
        self.accounts = self.new_agent()

    def new_agent(self) -> PodAccounts:
        sources = AccountSources(
            mounted=lambda: tuple(self.mounted),
            reported=lambda: self.reported,
            seen=lambda: self.seen,
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
    node.seen = {"uid-trainer-0": Stall(0.25, StallSource.FUSE)}
    node.came(30)
    node.pass_time(10)
    (told,) = node.end("trainer-0")
    assert (told.uid, told.warm_bytes, told.origin_bytes) == ("uid-trainer-0", 60, 30)
    assert (told.watched_seconds, told.stalled_seconds, told.saved_seconds) == (10.0, 2.5, 3.0)


async def test_a_pods_own_word_of_its_stall_comes_first(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted, node.seen = [mounted()], {"uid-trainer-0": Stall(0.9, StallSource.TASK_DELAY)}
    own = NodeWorkload(pod="vision/trainer-0", uid="uid-trainer-0", stall_percent=10, stall_source=StallSource.REPORT)
    node.reported = [own]
    node.accounts.rows()
    node.pass_time(10)
    (told,) = node.end("trainer-0")
    assert (told.stalled_seconds, told.stall_source) == (1.0, "report")


async def saved(node: AccountedNode) -> None:
    """Let the agent run until it has written its file."""
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


async def test_a_pod_that_ended_while_no_agent_ran_is_told_of(node: AccountedNode) -> None:
    await node.accounts.begin()
    node.mounted = [mounted()]
    node.accounts.rows()
    await saved(node)
    node.mounted, node.accounts = [], node.new_agent()
    await node.accounts.begin()
    assert [row.uid for row in node.accounts.rows()] == ["uid-trainer-0"]


@pytest.mark.expected_logs("cannot be read and is begun anew")
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

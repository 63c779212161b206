"""When NodeCache.status is written. Each notice of the fetcher becomes one event."""

import asyncio
import json

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import REPORT_SECONDS, NodeCache, NodeCacheSpec
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_kube.errors import KubeError, Unavailable
from stoker_kube.resources import EVENTS, NODE_CACHES
from stoker_sidecar.agent.kube.node_cache import SMALLER_SECONDS, NoticeTeller, StatusWriter
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.wire.fetcher_protocol import Notice, Progress
from tests.fakes.kube import FakeKube
from tests.support.waiting import eventually

EVICTED = Notice(1, "u1", Reason.EVICTED, "vision/digits was dropped")
FAILED = Notice(2, "", Reason.CACHE_DISK_FAILED, "the cache folder /a is out of service")
DIGITS = NodeDataset(namespace="vision", name="digits", uid="u1", source=Source(uri="s3://bucket"))


class Desk:
    """A writer, its clock, and the status to write."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.now = 100.0
        self.status: NodeCacheStatus | None = NodeCacheStatus(address="10.0.0.1:8081")
        self.pace = float(REPORT_SECONDS)
        self.writer = StatusWriter(
            kube,
            "node-1",
            Changes(),
            lambda written: self.status,
            pace=lambda: self.pace,
            clock=lambda: self.now,
            rand=lambda: 0.25,
        )

    def warm(self, files: int, phase: NodePhase = NodePhase.WARMING) -> None:
        row = NodeDatasetStatus(namespace="vision", name="digits", uid="u1", warm_files=files, phase=phase)
        self.status = NodeCacheStatus(datasets=(row,))

    @property
    def writes(self) -> int:
        return self.kube.requests.count(("patch", "nodecaches"))


@pytest.fixture
async def desk() -> Desk:
    kube = FakeKube()
    await kube.create(NODE_CACHES, {"metadata": {"name": "node-1"}, "spec": {}})
    return Desk(kube)


async def test_the_first_status_is_written(desk: Desk) -> None:
    await desk.writer.write_if_due()
    assert (await desk.kube.get(NODE_CACHES, "node-1"))["status"]["address"] == "10.0.0.1:8081"


async def test_an_unchanged_status_is_not_written_again(desk: Desk) -> None:
    await desk.writer.write_if_due()
    assert await desk.writer.write_if_due() is None
    assert desk.writes == 1


async def test_moving_figures_wait(desk: Desk) -> None:
    desk.warm(1)
    await desk.writer.write_if_due()
    desk.warm(2)
    desk.now += 0.5
    assert await desk.writer.write_if_due() == REPORT_SECONDS - 0.5
    desk.now += REPORT_SECONDS
    await desk.writer.write_if_due()
    assert desk.writes == 2


async def test_in_a_large_cluster_figures_wait_for_the_time_of_their_node(desk: Desk) -> None:
    desk.pace = 64.0
    await desk.writer.write_if_due()
    desk.now = 1000.0 * 64.0 + 20.0  # its due time was 4 s ago
    desk.warm(1)
    await desk.writer.write_if_due()
    desk.warm(2)
    assert await desk.writer.write_if_due() == 60.0
    desk.now += 59.0
    assert await desk.writer.write_if_due() == 1.0
    desk.now += 1.0
    await desk.writer.write_if_due()
    assert desk.writes == 3


async def test_figures_wait_no_longer_because_others_move_meanwhile(desk: Desk) -> None:
    desk.pace = 64.0
    desk.warm(0)
    await desk.writer.write_if_due()
    for second in range(64):
        desk.warm(second + 1)
        desk.now += 1.0
        await desk.writer.write_if_due()
    assert desk.writes == 2


async def test_a_quicker_pace_counts_at_once(desk: Desk) -> None:
    desk.pace = 256.0
    desk.warm(1)
    await desk.writer.write_if_due()
    desk.warm(2)
    waited = await desk.writer.write_if_due()
    assert waited is not None
    desk.pace = REPORT_SECONDS
    desk.now += REPORT_SECONDS
    await desk.writer.write_if_due()
    assert (desk.writes, waited > REPORT_SECONDS) == (2, True)


async def test_a_new_phase_does_not_wait_however_large_the_cluster(desk: Desk) -> None:
    desk.pace = 256.0
    await test_a_new_phase_does_not_wait(desk)


async def test_a_new_phase_does_not_wait(desk: Desk) -> None:
    desk.warm(1)
    await desk.writer.write_if_due()
    desk.warm(10, NodePhase.WARM)
    await desk.writer.write_if_due()
    assert desk.writes == 2


async def test_without_a_node_cache_nothing_is_written(desk: Desk) -> None:
    desk.status = None
    assert await desk.writer.write_if_due() is None
    assert desk.writes == 0


async def test_a_node_cache_that_was_made_again_is_told_everything(desk: Desk) -> None:
    await desk.writer.write_if_due()
    whole, desk.status = desk.status, None
    await desk.writer.write_if_due()
    desk.status = whole
    await desk.writer.write_if_due()
    assert desk.writes == 2


@pytest.mark.expected_logs("cannot be written now")
async def test_after_an_outage_the_newest_status_is_written(desk: Desk) -> None:
    desk.kube.outage = Unavailable(0, "Unreachable", "Connection refused.")
    wait = await desk.writer.write_if_due()
    assert wait is not None
    assert wait > 0
    desk.kube.outage = None
    desk.warm(7)
    await desk.writer.write_if_due()
    assert (await desk.kube.get(NODE_CACHES, "node-1"))["status"]["datasets"][0]["warmFiles"] == 7


TOO_LARGE = [
    KubeError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
    Unavailable(500, "InternalError", "etcdserver: request is too large"),
    Unavailable(500, "InternalError", "rpc error: trying to send message larger than max (2721559 vs. 2097152)"),
]


@pytest.mark.parametrize("error", TOO_LARGE)
@pytest.mark.expected_logs("cannot be written now")
async def test_a_status_that_is_called_too_large_is_halved_until_it_is_taken(desk: Desk, error: KubeError) -> None:
    rows = [
        NodeDatasetStatus(namespace="vision" if number else "other", name=f"d{number}", uid=str(number))
        for number in range(1000)
    ]
    desk.status = NodeCacheStatus(datasets=tuple(rows), dataset_count=1000)
    waits = []
    for outage in (error, error, None):
        desk.kube.outage = outage
        waits.append(await desk.writer.write_if_due())
    written = (await desk.kube.get(NODE_CACHES, "node-1"))["status"]
    assert (waits, written["datasetCount"]) == ([0.0, 0.0, None], 1000)
    assert len(json.dumps(written)) < len(json.dumps(desk.status.wire())) / 4
    assert written["datasets"][0]["namespace"] == "other"
    assert written["leftOut"] == 1000 - len(written["datasets"])


@pytest.mark.expected_logs("cannot be written now")
async def test_after_ten_minutes_the_whole_status_is_tried_again(desk: Desk) -> None:
    rows = (NodeDatasetStatus(namespace="vision", name=f"d{number}", uid=str(number)) for number in range(1000))
    desk.status = NodeCacheStatus(datasets=tuple(rows))
    desk.kube.outage = TOO_LARGE[0]
    await desk.writer.write_if_due()
    desk.kube.outage = None
    await desk.writer.write_if_due()
    desk.now += SMALLER_SECONDS
    await desk.writer.write_if_due()
    assert len((await desk.kube.get(NODE_CACHES, "node-1"))["status"]["datasets"]) == 1000


@pytest.mark.expected_logs("cannot be written now")
async def test_the_smallest_status_that_is_called_too_large_waits(desk: Desk) -> None:
    desk.kube.outage = TOO_LARGE[0]
    assert await desk.writer.write_if_due() == 0.0
    assert (await desk.writer.write_if_due() or 0.0) > 0.0


async def _told(*progress: Progress) -> list[tuple[str, str, str, str]]:
    """Return (namespace, type, reason, message) of the events from these progress reports, in sequence."""
    kube, plan = FakeKube(), NodePlan()
    plan.take_node_cache(NodeCache(metadata=ObjectMeta(name="n1", uid="c1"), spec=NodeCacheSpec(datasets=(DIGITS,))))
    teller = NoticeTeller(kube, "n1", plan)
    for one in progress:
        plan.take_progress(one)
        teller.tell_new()
    wanted = len({notice.number for one in progress for notice in one.notices})
    running = asyncio.create_task(teller.run())
    await eventually(lambda: len(kube.objects(EVENTS)) == wanted)
    running.cancel()
    events = kube.objects(EVENTS)
    return [(event["metadata"]["namespace"], event["type"], event["reason"], event["message"]) for event in events]


async def test_an_eviction_is_an_event_of_its_dataset() -> None:
    assert await _told(Progress((), notices=(EVICTED,))) == [
        ("vision", "Normal", "Evicted", "n1: vision/digits was dropped")
    ]


async def test_a_failed_folder_is_a_warning_of_the_node_cache() -> None:
    assert await _told(Progress((), notices=(FAILED,))) == [
        ("default", "Warning", "CacheDiskFailed", "n1: the cache folder /a is out of service")
    ]


async def test_a_notice_that_is_repeated_is_told_once() -> None:
    events = await _told(Progress((), notices=(EVICTED,)), Progress((), notices=(EVICTED, FAILED)))
    assert sorted(reason for _, _, reason, _ in events) == ["CacheDiskFailed", "Evicted"]

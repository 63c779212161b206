"""What the fetcher wants told becomes events, each once, of the object that it is about."""

import asyncio

from stoker_api.dataset import Source
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.nodecache import NodeCache, NodeCacheSpec, NodeDataset
from stoker_kube.resources import EVENTS
from stoker_sidecar.agent.notices import NoticeTeller
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.wire.fetcher_protocol import Notice, Progress
from tests.fakes.kube import FakeKube
from tests.support.waiting import eventually

EVICTED = Notice(1, "u1", Reason.EVICTED, "vision/digits was dropped")
FAILED = Notice(2, "", Reason.CACHE_DISK_FAILED, "the cache folder /a is out of service")
DIGITS = NodeDataset(namespace="vision", name="digits", uid="u1", source=Source(uri="s3://bucket"))


async def _told(*progress: Progress) -> list[tuple[str, str, str, str]]:
    """Return (namespace, type, reason, message) of the events that come of it, said one after the other."""
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

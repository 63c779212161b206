"""Idle Datasets are evicted as a whole for those in use, with an event. They return once they are used or fit."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.datasetclass import DatasetClass
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_operator.core.plans.admission import AdmissionMemory
from stoker_operator.core.views.cluster import ClusterView
from tests.fakes.object_store import MemoryStore
from tests.support.cache_node import CacheNodeUnderTest, fill, inode, open_cache_node
from tests.support.waiting import eventually
from tests.unit.stoker_operator.builders import decide_once, make_cache, make_class, make_dataset, make_node

SIZE = 1000  # bytes of each Dataset
CAPACITY = 1500  # room for one of them


def _bytes_of(uid: str) -> dict[str, bytes]:
    return {f"f{index}": uid[-1].encode() * (SIZE // 10) for index in range(10)}


@pytest.fixture
async def cache_node(tmp_path: Path) -> AsyncIterator[CacheNodeUnderTest]:
    stores = {uid: MemoryStore() for uid in ("uid-1", "uid-2")}
    for uid, store in stores.items():
        fill(store, _bytes_of(uid))
    async with open_cache_node(tmp_path, stores, capacity=CAPACITY) as made:
        yield made


async def _configure(cache_node: CacheNodeUnderTest, uid: str, **changes: Any) -> None:
    await cache_node.configure(
        **({"uid": uid, "name": uid, "source": {"uri": f"s3://{uid}"}, "listingId": "1"} | changes)
    )


async def _list(cache_node: CacheNodeUnderTest, uid: str) -> str:
    await _configure(cache_node, uid)
    status = await cache_node.reach(lambda s: s.listing is not None, uid)
    assert status.listing is not None
    return status.listing.version


async def _ask(cache_node: CacheNodeUnderTest, uid: str, digest: str, **changes: Any) -> None:
    """Request a warm-up from a node whose view of the free room is up to date."""
    cache_node.clock.ahead += 2
    await _configure(cache_node, uid, **({"version": digest, "eager": True} | changes))


async def _warm(cache_node: CacheNodeUnderTest, uid: str, **changes: Any) -> str:
    digest = await _list(cache_node, uid)
    await _ask(cache_node, uid, digest, **changes)
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM, uid)
    return digest


def _evicted(status: NodeDatasetStatus) -> bool:
    return status.error is not None and status.error.reason == Reason.EVICTED


async def test_an_idle_dataset_makes_room_for_one_that_a_pod_uses(cache_node: CacheNodeUnderTest) -> None:
    await _warm(cache_node, "uid-1")
    digest = await _list(cache_node, "uid-2")
    await _ask(cache_node, "uid-2", digest, held=(digest,))
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM, "uid-2")
    status = await cache_node.reach(lambda s: _evicted(s) and s.phase is NodePhase.IDLE, "uid-1")
    assert status.warm_bytes == 0


async def test_what_was_dropped_and_why_is_told_once(cache_node: CacheNodeUnderTest) -> None:
    await _warm(cache_node, "uid-1")
    digest = await _list(cache_node, "uid-2")
    await _ask(cache_node, "uid-2", digest, held=(digest,))
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM, "uid-2")
    (notice,) = cache_node.node.progress().notices
    assert (notice.uid, notice.reason) == ("uid-1", Reason.EVICTED)
    assert "uid-1" in notice.message
    assert "uid-2" in notice.message


async def test_a_dataset_of_higher_priority_drives_out_a_lower_one(cache_node: CacheNodeUnderTest) -> None:
    await _warm(cache_node, "uid-1")
    await _warm(cache_node, "uid-2", priority=5)
    assert _evicted(cache_node.status("uid-1"))


def _told(dataset: Dataset, found: DatasetClass | None) -> dict[str, Any]:
    """Return the priority and the pin in a node's plan for a Dataset under that class."""
    admitted = AdmissionMemory().admit_all({dataset.key: dataset}, {found.metadata.name: found} if found else {})
    view = ClusterView(datasets=admitted.datasets, nodes={"a": make_node("a")}, node_caches={"a": make_cache("a")})
    [entry] = decide_once(view).nodes.writes[0].spec.datasets
    return {"priority": entry.priority, "pinned": entry.pinned}


GENEROUS = make_class("generous", default=True, priority={"max": 1000}, allowPinning=True)
STRICT = make_class("strict", default=True, priority={"max": 0})


@pytest.mark.parametrize(("found", "dropped"), [(None, False), (STRICT, False), (GENEROUS, True)])
async def test_a_stranger_s_priority_drops_nobody_s_data(
    cache_node: CacheNodeUnderTest, found: DatasetClass | None, dropped: bool
) -> None:
    await _warm(cache_node, "uid-1", **_told(make_dataset("ours", namespace="team-a"), found))
    greedy = make_dataset("theirs", namespace="team-b", warm={"priority": 1000}, cache={"pinned": True})
    await _ask(cache_node, "uid-2", await _list(cache_node, "uid-2"), **_told(greedy, found))
    await cache_node.reach(lambda s: s.phase is (NodePhase.WARM if dropped else NodePhase.FULL), "uid-2")
    assert _evicted(cache_node.status("uid-1")) is dropped


@pytest.mark.parametrize("protection", [{"pinned": True}, {"priority": 1}])
async def test_a_protected_dataset_stays(cache_node: CacheNodeUnderTest, protection: dict[str, Any]) -> None:
    await _warm(cache_node, "uid-1", **protection)
    digest = await _list(cache_node, "uid-2")
    await _ask(cache_node, "uid-2", digest, held=(digest,))
    await cache_node.reach(lambda s: s.phase is NodePhase.FULL, "uid-2")
    assert cache_node.status("uid-1").phase is NodePhase.WARM


async def test_a_dataset_that_a_pod_uses_stays(cache_node: CacheNodeUnderTest) -> None:
    first = await _warm(cache_node, "uid-1")
    await _ask(cache_node, "uid-1", first, held=(first,))
    await _list(cache_node, "uid-2")
    await _ask(cache_node, "uid-2", await _list(cache_node, "uid-2"), priority=9)
    await cache_node.reach(lambda s: s.phase is NodePhase.FULL, "uid-2")
    assert cache_node.status("uid-1").phase is NodePhase.WARM


async def test_two_idle_datasets_of_one_priority_never_drive_each_other_out(cache_node: CacheNodeUnderTest) -> None:
    await _warm(cache_node, "uid-1")
    await _ask(cache_node, "uid-2", await _list(cache_node, "uid-2"))
    await cache_node.reach(lambda s: s.phase is NodePhase.FULL, "uid-2")
    assert cache_node.status("uid-1").phase is NodePhase.WARM


async def test_a_dropped_dataset_is_still_read(cache_node: CacheNodeUnderTest) -> None:
    first = await _warm(cache_node, "uid-1")
    await _warm(cache_node, "uid-2", priority=5)
    ino = inode(cache_node, first, "f3")
    assert await cache_node.read(first, ino, 0, 5) == b"11111"


async def test_a_dropped_dataset_stays_away_over_a_restart(tmp_path: Path) -> None:
    stores = {uid: MemoryStore() for uid in ("uid-1", "uid-2")}
    for uid, store in stores.items():
        fill(store, _bytes_of(uid))
    async with open_cache_node(tmp_path, stores, capacity=CAPACITY) as cache_node:
        first = await _warm(cache_node, "uid-1")
        await _warm(cache_node, "uid-2", priority=5)
    async with open_cache_node(tmp_path, stores, capacity=CAPACITY) as cache_node:
        await _ask(cache_node, "uid-1", first)
        status = await cache_node.reach(lambda s: s.files > 0, "uid-1")
    assert _evicted(status)


async def test_a_dropped_dataset_comes_back_when_it_fits(cache_node: CacheNodeUnderTest) -> None:
    first = await _warm(cache_node, "uid-1")
    await _warm(cache_node, "uid-2", priority=5)
    await cache_node.node.remove("uid-2")
    await eventually(lambda: not list((cache_node.root / "trash").iterdir()))
    await _ask(cache_node, "uid-1", first, generation=2)
    status = await cache_node.reach(lambda s: s.phase is NodePhase.WARM, "uid-1")
    assert status.error is None


async def test_a_dropped_dataset_that_a_pod_uses_drives_out_the_other_when_that_is_idle(
    cache_node: CacheNodeUnderTest,
) -> None:
    first = await _warm(cache_node, "uid-1")
    digest = await _list(cache_node, "uid-2")
    await _ask(cache_node, "uid-2", digest, held=(digest,))
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM, "uid-2")
    await _ask(cache_node, "uid-2", digest)
    await _ask(cache_node, "uid-1", first, held=(first,))
    await cache_node.reach(lambda s: s.phase is NodePhase.WARM, "uid-1")
    assert _evicted(cache_node.status("uid-2"))


async def test_a_dataset_that_waits_to_make_room_drops_what_it_is_asked_for_meanwhile(tmp_path: Path) -> None:
    stores = {"uid-1": MemoryStore()}
    fill(stores["uid-1"], _bytes_of("uid-1"))
    async with open_cache_node(tmp_path, stores, capacity=SIZE - 1) as cache_node:
        digest = await _list(cache_node, "uid-1")
        evictor, dataset = cache_node.node._context.evictor, cache_node.node._datasets["uid-1"]
        async with evictor._evicting:  # like another Dataset that makes room
            await _ask(cache_node, "uid-1", digest)
            await eventually(lambda: bool(evictor._evicting._waiters))
            async with asyncio.timeout(10):  # a sixth of its timeout
                assert await dataset.budget.ask_to_drop(digest, "others need it")
    assert _evicted(cache_node.status("uid-1"))

"""Kueue can be installed and removed: its objects are watched while its CRDs exist, and cost nothing otherwise."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stoker_kube.errors import NotFound
from stoker_kube.resources import ADMISSION_CHECKS, WORKLOADS
from stoker_operator.mirror.kueue_feed import KueueFeed
from stoker_operator.mirror.state import ClusterState
from tests.fakes.kube import FakeKube
from tests.support.waiting import eventually
from tests.unit.stoker_operator.kueue import make_check, make_workload

ABSENT = NotFound(404, "NotFound", "the server could not find the requested resource")


class Naps:
    """Sleeps that end on request."""

    def __init__(self) -> None:
        self.count = 0
        self._over = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.count += 1
        await self._over.wait()
        self._over.clear()

    def end(self) -> None:
        self._over.set()


@asynccontextmanager
async def running(kube: FakeKube, state: ClusterState, naps: Naps) -> AsyncIterator[None]:
    task = asyncio.create_task(KueueFeed(kube, state, naps.sleep).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_its_objects_are_known_once_it_is_there() -> None:
    kube, state, naps = FakeKube(), ClusterState("stoker"), Naps()
    await kube.create(ADMISSION_CHECKS, make_check())
    await kube.create(ADMISSION_CHECKS, make_check("other", "example.com/other"))
    await kube.create(WORKLOADS, make_workload())
    async with running(kube, state, naps):
        await eventually(lambda: bool(len(state.admission_checks)) and bool(len(state.queued_workloads)))
    assert set(state.admission_checks.snapshot()) == {"data-warm"}
    assert set(state.queued_workloads.snapshot()) == {"vision/job-train"}


async def test_without_it_two_lists_are_asked_for_at_a_time_and_found_when_it_comes() -> None:
    kube, state, naps = FakeKube(), ClusterState("stoker"), Naps()
    kube.refuse("list", WORKLOADS, ABSENT)
    kube.refuse("list", ADMISSION_CHECKS, ABSENT)
    async with running(kube, state, naps):
        await eventually(lambda: naps.count == 1)
        assert len(kube.requests) <= 2
        kube.allow("list", WORKLOADS)
        kube.allow("list", ADMISSION_CHECKS)
        await kube.create(WORKLOADS, make_workload())
        naps.end()
        await eventually(lambda: bool(len(state.queued_workloads)))


async def test_what_was_known_is_forgotten_when_it_goes_and_known_again_when_it_is_back() -> None:
    kube, state, naps = FakeKube(), ClusterState("stoker"), Naps()
    await kube.create(WORKLOADS, make_workload())
    async with running(kube, state, naps):
        await eventually(lambda: bool(len(state.queued_workloads)))
        kube.refuse("watch", WORKLOADS, ABSENT)
        kube.break_connections()
        await eventually(lambda: naps.count == 1)
        assert not len(state.queued_workloads)
        kube.allow("watch", WORKLOADS)
        naps.end()
        await eventually(lambda: bool(len(state.queued_workloads)))

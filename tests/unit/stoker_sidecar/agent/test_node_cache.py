"""When NodeCache.status is written and when not."""

import pytest

from stoker_api.nodecache import NodeCacheStatus, NodeDatasetStatus, NodePhase
from stoker_kube.errors import Unavailable
from stoker_kube.resources import NODE_CACHES
from stoker_sidecar.agent.node_cache import FIGURES_SECONDS, StatusWriter
from stoker_sidecar.volumes.synchronization import Changes
from tests.fakes.kube import FakeKube


class Desk:
    """A writer, its clock, and the status that it is given."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.now = 100.0
        self.status: NodeCacheStatus | None = NodeCacheStatus(address="10.0.0.1:8081")
        self.writer = StatusWriter(kube, "node-1", Changes(), lambda written: self.status, clock=lambda: self.now)

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
    assert await desk.writer.write_if_due() == FIGURES_SECONDS - 0.5
    desk.now += FIGURES_SECONDS
    await desk.writer.write_if_due()
    assert desk.writes == 2


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

"""Background reads, and the events that they cause."""

import asyncio
from collections.abc import AsyncIterator

from stoker_cli.dashboard.server import cluster_reader, updates
from stoker_cli.dashboard.server.cluster_reader import IDLE_SECONDS, ClusterReader
from stoker_cli.dashboard.server.permissions import UserPermissions
from stoker_cli.dashboard.server.updates import LiveUpdates
from stoker_kube.api import Listing, Object
from stoker_kube.errors import Unavailable
from stoker_kube.resources import DATASETS, Kind
from tests.unit.stoker_cli.dashboard.users import WRITES, UserKube, cluster, dataset


class Clock:
    """A clock that the test advances, and a sleep that returns when the test allows it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.next = asyncio.Semaphore(0)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.next.acquire()


async def settled() -> None:
    """Let all tasks and threads proceed until they wait."""
    for _ in range(50):
        await asyncio.to_thread(lambda: None)


async def test_an_unchanged_cluster_keeps_its_revision() -> None:
    reader = ClusterReader(cluster(), "vision")
    await reader.read_all()
    before = reader.revision
    await reader.read_all()
    assert reader.revision == before


async def test_an_unchanged_dataset_is_not_parsed_again() -> None:
    kube = cluster()
    reader = ClusterReader(kube, "vision")
    await reader.read_all()
    before = reader.data.datasets
    kube.seed(DATASETS, dataset("vision", "new"))
    await reader.read_all()
    assert reader.data.datasets["vision/imagenet"] is before["vision/imagenet"]
    assert "vision/new" in reader.data.datasets


async def test_a_dataset_that_this_release_cannot_read_is_left_out() -> None:
    kube = cluster()
    kube.seed(DATASETS, {"metadata": {"namespace": "vision", "name": "odd"}, "spec": {}})
    reader = ClusterReader(kube, "vision")
    await reader.read_all()
    assert set(reader.data.datasets) == {"vision/imagenet", "text/wiki"}


async def test_pauses_grow_with_the_duration_of_a_read() -> None:
    clock = Clock()

    class Slow(UserKube):
        async def list(
            self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
        ) -> Listing:
            clock.now += 3.0
            return await super().list(kind, namespace, label_selector, field_selector)

    reader = ClusterReader(Slow({}, {}), "vision", clock=clock, sleep=clock.sleep)
    running = asyncio.create_task(reader.run())
    await settled()
    running.cancel()
    assert len(clock.slept) == 5
    assert all(cluster_reader.SHORTEST <= seconds <= cluster_reader.LONGEST for seconds in clock.slept)
    assert max(clock.slept) >= 30.0


async def test_nothing_is_read_while_no_browser_shows_the_page() -> None:
    kube, clock = cluster(), Clock()
    reader = ClusterReader(kube, "vision", clock=clock, sleep=clock.sleep)
    running = asyncio.create_task(reader.run())
    await settled()
    clock.now = IDLE_SECONDS + 1
    before = len(kube.requests)
    for _ in range(5):
        clock.next.release()
    await settled()
    idle = len(kube.requests)
    reader.viewed()
    await settled()
    running.cancel()
    assert idle == before
    assert len(kube.requests) > idle


async def test_a_change_is_an_event() -> None:
    kube = cluster()
    reader = ClusterReader(kube, "vision")
    await reader.read_all()
    stream = LiveUpdates(reader).stream(reader.revision)
    first = asyncio.ensure_future(anext(stream))
    await settled()
    kube.seed(DATASETS, dataset("vision", "new"))
    await reader.read_all()
    assert (await first).startswith("event: change\ndata: ")
    await close(stream)


async def test_a_page_that_is_old_already_gets_an_event_at_once() -> None:
    reader = ClusterReader(cluster(), "vision")
    before = reader.revision
    await reader.read_all()
    stream = LiveUpdates(reader).stream(before)
    assert await anext(stream) == f"event: change\ndata: {reader.revision}\n\n"
    await close(stream)


async def test_the_stream_of_an_ended_session_ends() -> None:
    reader, ended = ClusterReader(cluster(), "vision"), [False, True]
    stream = LiveUpdates(reader, settled_at_once, lambda: ended.pop(0)).stream(-1)
    assert [event async for event in stream] == [f"event: change\ndata: {reader.revision}\n\n"]


async def settled_at_once(_: float) -> None:
    """Sleep for no time."""


async def test_a_closed_stream_makes_room() -> None:
    reader = ClusterReader(cluster(), "vision")
    live = LiveUpdates(reader)
    streams = [live.stream(reader.revision) for _ in range(updates.MOST_STREAMS)]
    waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await settled()
    assert live.full
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not live.full


async def close(stream: AsyncIterator[str]) -> None:
    await stream.aclose()  # type: ignore[attr-defined]


async def test_permissions_are_asked_once_in_half_a_minute() -> None:
    clock, writes = Clock(), dict(WRITES)
    permissions = UserPermissions(UserKube({}, writes), clock)
    assert await permissions.may_patch(DATASETS, "vision")
    writes.clear()
    assert await permissions.may_patch(DATASETS, "vision")
    clock.now = 31.0
    assert not await permissions.may_patch(DATASETS, "vision")


async def test_without_an_answer_the_api_server_decides_at_the_change() -> None:
    class Silent(UserKube):
        async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
            raise Unavailable(503, "Unavailable", "down")

    assert await UserPermissions(Silent({}, {})).may_patch(DATASETS, "vision")

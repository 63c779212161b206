"""The reconnecting watch, and the informer on top of it."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from stoker_kube.api import Object
from stoker_kube.errors import Forbidden, Unavailable
from stoker_kube.informer import Informer
from stoker_kube.watch import EventType, WatchEvent, watch
from tests.fakes.kube import FakeKube
from tests.support.kinds import CONFIG_MAPS
from tests.support.waiting import take


class Sleeps:
    """A fake sleep that records the requested seconds."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


@pytest.fixture
async def events(kube: FakeKube, sleeps: Sleeps) -> AsyncIterator[Any]:
    async with aclosing(watch(kube, CONFIG_MAPS, sleep=sleeps)) as stream:
        yield stream


async def make(kube: FakeKube, name: str) -> Object:
    return await kube.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "test"}, "data": {}})


def told(events: list[WatchEvent]) -> list[tuple[EventType, str]]:
    return [(event.type, event.object.get("metadata", {}).get("name", "")) for event in events]


async def test_a_broken_connection_is_resumed_without_a_list(kube: FakeKube, events: AsyncIterator[WatchEvent]) -> None:
    await make(kube, "a")
    await take(2, events)
    kube.break_connections()
    await make(kube, "b")
    assert told(await take(1, events)) == [(EventType.ADDED, "b")]
    assert kube.requests.count(("list", "configmaps")) == 1


async def test_after_expired_only_changes_are_yielded(kube: FakeKube, events: AsyncIterator[WatchEvent]) -> None:
    for name in ("same", "gone", "changed"):
        await make(kube, name)
    await take(4, events)
    await kube.delete(CONFIG_MAPS, "gone", "test")
    await kube.patch(CONFIG_MAPS, "changed", {"data": {"x": "1"}}, "test")
    kube.compact()
    assert told(await take(3, events)) == [
        (EventType.MODIFIED, "changed"),
        (EventType.DELETED, "gone"),
        (EventType.SYNCED, ""),
    ]


@pytest.mark.expected_logs("is interrupted")
async def test_an_outage_waits_for_retry_after(
    kube: FakeKube, events: AsyncIterator[WatchEvent], sleeps: Sleeps
) -> None:
    kube.fail_next("list", CONFIG_MAPS, Unavailable(429, "TooManyRequests", "Come back later.", retry_after=7.0))
    assert told(await take(1, events)) == [(EventType.SYNCED, "")]
    assert sleeps.asked == [7.0]


@pytest.mark.expected_logs("is interrupted")
async def test_waits_grow_during_an_outage(kube: FakeKube, events: AsyncIterator[WatchEvent], sleeps: Sleeps) -> None:
    for _ in range(8):
        kube.fail_next("list", CONFIG_MAPS, Unavailable(0, "Unreachable", "Connection refused."))
    await take(1, events)
    assert max(sleeps.asked[-3:]) > max(sleeps.asked[:3])
    assert all(0 < seconds <= 30 for seconds in sleeps.asked)


@pytest.mark.expected_logs("is interrupted")
async def test_each_attempt_after_an_interruption_is_reported(kube: FakeKube, sleeps: Sleeps) -> None:
    told_after: list[int] = []
    for _ in range(2):
        kube.fail_next("list", CONFIG_MAPS, Unavailable(0, "Unreachable", "Connection refused."))

    def note() -> None:
        told_after.append(len(sleeps.asked))

    async with aclosing(watch(kube, CONFIG_MAPS, sleep=sleeps, on_new_attempt=note)) as stream:
        await take(1, stream)
    assert told_after == [1, 2]


async def test_an_error_event_in_the_stream_leads_to_a_new_list(sleeps: Sleeps) -> None:
    class Expiring(FakeKube):
        async def stream(self, *args: Any, **scope: Any) -> AsyncIterator[Object]:
            if ("watch", "configmaps") in self.requests:
                async for event in super().stream(*args, **scope):
                    yield event
            self.requests.append(("watch", "configmaps"))
            yield {
                "type": "ERROR",
                "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "Too old."},
            }

    kube = Expiring()
    async with aclosing(watch(kube, CONFIG_MAPS, sleep=sleeps)) as events:
        assert told(await take(2, events)) == [(EventType.SYNCED, ""), (EventType.SYNCED, "")]


async def test_errors_to_give_up_on_are_raised(kube: FakeKube) -> None:
    kube.fail_next("list", CONFIG_MAPS, Forbidden(403, "Forbidden", "configmaps is forbidden"))
    with pytest.raises(Forbidden):
        await anext(watch(kube, CONFIG_MAPS, give_up_on=(Forbidden,)))


async def feed(*events: WatchEvent) -> AsyncIterator[WatchEvent]:
    for event in events:
        yield event


def item(name: str, value: str) -> Object:
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "test"}, "data": {"v": value}}


async def test_an_informer_reports_only_changed_views() -> None:
    changes: list[tuple[str, str | None, str | None]] = []
    events = feed(
        WatchEvent(EventType.ADDED, item("a", "1")),
        WatchEvent(EventType.SYNCED, {}),
        WatchEvent(EventType.MODIFIED, item("a", "1")),
        WatchEvent(EventType.MODIFIED, item("a", "2")),
        WatchEvent(EventType.ADDED, item("b", "3")),
        WatchEvent(EventType.DELETED, item("a", "2")),
    )
    informer = Informer(events, lambda o: o["data"]["v"], lambda key, old, new: changes.append((key, old, new)))
    await informer.run()
    assert informer.synced
    assert informer.mirror == {"test/b": "3"}
    assert changes == [("test/a", None, "1"), ("test/a", "1", "2"), ("test/b", None, "3"), ("test/a", "2", None)]


@pytest.mark.expected_logs("is ignored")
async def test_an_object_that_cannot_be_parsed_is_left_out() -> None:
    events = feed(WatchEvent(EventType.ADDED, item("bad", "x")), WatchEvent(EventType.ADDED, item("good", "7")))
    informer = Informer(events, lambda o: int(o["data"]["v"]))
    await informer.run()
    assert informer.mirror == {"test/good": 7}

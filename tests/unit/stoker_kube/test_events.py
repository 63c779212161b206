"""Events are written in the background, also during floods and outages."""

import asyncio

import pytest

from stoker_kube.api import Object
from stoker_kube.errors import Forbidden, Unavailable
from stoker_kube.events import ATTEMPTS, PENDING_LIMIT, EventRecorder, ObjectRef
from stoker_kube.resources import EVENTS
from tests.fakes.kube import FakeKube
from tests.fakes.troubled_kube import Trouble, TroubledKube
from tests.support.virtual_time import run_virtual
from tests.support.waiting import eventually

POD = ObjectRef("v1", "Pod", "trainer-0", "vision", "uid-1")
NODE = ObjectRef("v1", "Node", "node-1")


async def _no_wait(seconds: float) -> None:
    """Return at once."""


async def written(kube: FakeKube, recorder: EventRecorder) -> list[Object]:
    task = asyncio.create_task(recorder.run())
    await eventually(lambda: recorder.idle)
    task.cancel()
    return kube.objects(EVENTS)


async def test_queued_repeats_are_written_once_with_a_count() -> None:
    kube = FakeKube()
    recorder = EventRecorder(kube, "stoker")
    for _ in range(5):
        recorder.event(POD, "Normal", "Released", "Goes to node-1.")
    assert [event["count"] for event in await written(kube, recorder)] == [5]
    assert kube.requests == [("create", "events")]


def test_events_delayed_by_the_rate_limit_are_merged() -> None:
    async def main() -> None:
        kube = FakeKube()
        recorder = EventRecorder(kube, "stoker", pace=_EverySecond())
        writing = asyncio.create_task(recorder.run())
        for number in range(9):
            recorder.event(POD, "Normal", "Released", f"Number {number % 3}.")
            await asyncio.sleep(0.1)
        await asyncio.sleep(10.0)
        writing.cancel()
        assert len(kube.objects(EVENTS)) == 3
        assert sum(event["count"] for event in kube.objects(EVENTS)) == 9

    run_virtual(main())


def test_many_events_of_one_namespace_delay_no_other_namespace() -> None:
    async def main() -> None:
        kube = FakeKube()
        recorder = EventRecorder(kube, "stoker", pace=_EverySecond())
        for number in range(100):
            recorder.event(ObjectRef("v1", "Pod", f"p{number}", "many"), "Normal", "Released", "Goes.")
        recorder.event(POD, "Normal", "Released", "Goes.")
        writing = asyncio.create_task(recorder.run())
        await asyncio.sleep(3.5)
        writing.cancel()
        assert "vision" in {event["metadata"]["namespace"] for event in kube.objects(EVENTS)}

    run_virtual(main())


class _EverySecond:
    """Allows one event per second."""

    def __init__(self) -> None:
        self._next = 0.0

    def wait(self) -> float:
        """Return the seconds until the next event."""
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return self._next - now
        self._next = now + 1.0
        return 0.0


async def test_an_event_of_a_cluster_scoped_object_is_in_the_default_namespace() -> None:
    kube = FakeKube()
    recorder = EventRecorder(kube, "stoker")
    recorder.event(NODE, "Warning", "DiskFull", "No room.")
    assert [event["metadata"]["namespace"] for event in await written(kube, recorder)] == ["default"]


@pytest.mark.expected_logs("could not be written")
async def test_an_outage_is_retried_and_then_given_up() -> None:
    kube = FakeKube()
    recorder = EventRecorder(kube, "stoker", sleep=_no_wait)
    kube.outage = Unavailable(503, "ServiceUnavailable", "Try later.")
    recorder.event(POD, "Normal", "Released", "Goes to node-1.")
    assert await written(kube, recorder) == []
    assert len(kube.requests) == ATTEMPTS


@pytest.mark.expected_logs("was refused")
async def test_a_refusal_does_not_stop_the_next_event() -> None:
    kube = FakeKube()
    recorder = EventRecorder(kube, "stoker")
    kube.fail_next("create", EVENTS, Forbidden(403, "Forbidden", "namespace is being terminated"))
    recorder.event(POD, "Normal", "Released", "One.")
    recorder.event(POD, "Normal", "Released", "Two.")
    assert [event["message"] for event in await written(kube, recorder)] == ["Two."]


@pytest.mark.expected_logs("Too many events")
async def test_a_flood_keeps_the_newest() -> None:
    kube = FakeKube()
    recorder = EventRecorder(kube, "stoker")
    for number in range(PENDING_LIMIT + 1):
        recorder.event(POD, "Normal", "Released", f"Number {number}.")
    messages = {event["message"] for event in await written(kube, recorder)}
    assert len(messages) == PENDING_LIMIT
    assert "Number 0." not in messages


@pytest.mark.expected_logs("Too many events")
async def test_a_flood_of_one_namespace_drops_no_event_of_another() -> None:
    kube = FakeKube()
    recorder = EventRecorder(kube, "stoker")
    victim = ObjectRef("v1", "Pod", "trainer-0", "victim", "uid-2")
    recorder.event(victim, "Normal", "Released", "Mine.")
    for number in range(2 * PENDING_LIMIT):
        recorder.event(POD, "Normal", "Released", f"Number {number}.")
    assert "Mine." in {event["message"] for event in await written(kube, recorder)}


async def test_a_long_message_is_cut_to_the_limit_of_the_server() -> None:
    kube = FakeKube()
    recorder = EventRecorder(kube, "stoker")
    recorder.event(POD, "Normal", "Released", "ü" * 2000)
    message = (await written(kube, recorder))[0]["message"]
    assert isinstance(message, str)
    assert len(message.encode()) <= 1024


async def test_a_lone_surrogate_in_a_message_is_not_an_error() -> None:
    kube = FakeKube()
    recorder = EventRecorder(kube, "stoker")
    recorder.event(POD, "Normal", "Released", "a\ud83db")
    assert [event["message"] for event in await written(kube, recorder)] == ["a?b"]


@pytest.mark.expected_logs("could not be written")
def test_unanswered_events_of_one_object_delay_no_other_object() -> None:
    async def main() -> None:
        hangs = Trouble(lambda verb, kind, namespace, name, body: name.startswith("odd"), hangs=True)
        kube = TroubledKube(hangs)
        recorder = EventRecorder(kube, "stoker")
        writing = asyncio.create_task(recorder.run())
        for number in range(9):
            recorder.event(ObjectRef("v1", "Pod", f"odd-{number}", "odd"), "Normal", "Released", "Goes.")
        recorder.event(ObjectRef("v1", "Pod", "odd-0", "vision"), "Normal", "Released", "Goes.")
        recorder.event(POD, "Normal", "Released", "Goes.")
        await asyncio.sleep(0.1)
        assert [event["involvedObject"]["name"] for event in kube.objects(EVENTS)] == [POD.name]
        await asyncio.sleep(600.0)
        assert recorder.idle
        writing.cancel()

    run_virtual(main())

"""Leader election with a Lease."""

import asyncio
from typing import Any

import pytest

from stoker_kube.api import Object
from stoker_kube.errors import Unavailable
from stoker_kube.lease import LeaderElection, Observed, is_free
from stoker_kube.resources import LEASES
from tests.fakes.kube import FakeKube
from tests.support.cases import cases
from tests.support.virtual_time import run_virtual
from tests.support.waiting import SECONDS, eventually

OUTAGE = Unavailable(0, "Unreachable", "Connection refused.")


class Clock:
    """A clock that advances only during sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)  # or who renews for ever has the event loop to itself


def candidate(kube: FakeKube, identity: str, clock: Clock) -> LeaderElection:
    return LeaderElection(kube, "stoker", "operator", identity, clock=clock, sleep=clock.sleep)


@cases("holder, now, free", ("", 0.0, True), ("me", 0.0, True), ("other", 14.0, False), ("other", 15.5, True))
def test_a_lease_is_free_without_holder_if_held_or_expired(holder: str, now: float, free: bool) -> None:
    assert is_free(Observed(holder, "1", duration=15.0, since=0.0), "me", now) is free


async def test_a_new_leader_starts_after_the_lease_expires() -> None:
    kube, clock = FakeKube(), Clock()
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15}
    await kube.create(LEASES, {"metadata": {"name": "operator", "namespace": "stoker"}, "spec": spec})
    heir = candidate(kube, "heir", clock)
    await heir.acquire()
    assert 15.0 < clock.now < 20.0
    await heir.release()


@pytest.mark.expected_logs("Cannot take", "lost the lease")
async def test_a_leader_without_renewals_stops_before_the_lease_expires() -> None:
    kube, clock = FakeKube(), Clock()
    leader = candidate(kube, "one", clock)
    await leader.acquire()
    kube.outage = OUTAGE
    await eventually(leader.lost.is_set)
    assert clock.now < 15.0
    await leader.release()


@pytest.mark.expected_logs("lost the lease")
async def test_a_replaced_leader_stops_at_its_next_renewal() -> None:
    kube, clock = FakeKube(), Clock()
    leader = candidate(kube, "one", clock)
    await leader.acquire()
    await kube.patch(LEASES, "operator", {"spec": {"holderIdentity": "two"}}, "stoker")
    await eventually(leader.lost.is_set)
    await leader.release()
    assert (await kube.get(LEASES, "operator", "stoker"))["spec"]["holderIdentity"] == "two"


@pytest.mark.expected_logs("Cannot release")
async def test_a_release_during_an_outage_does_not_raise() -> None:
    kube, clock = FakeKube(), Clock()
    leader = candidate(kube, "one", clock)
    await leader.acquire()
    kube.outage = OUTAGE
    await leader.release()


class Silent(FakeKube):
    """An API server that stops answering on request."""

    def __init__(self) -> None:
        super().__init__()
        self.silent = False

    async def get(self, *args: Any, **kwargs: Any) -> Object:
        if self.silent:
            await asyncio.Event().wait()
        return await super().get(*args, **kwargs)

    async def patch(self, *args: Any, **kwargs: Any) -> Object:
        if self.silent:
            await asyncio.Event().wait()
        return await super().patch(*args, **kwargs)


@pytest.mark.parametrize("after", [0.0, 1.0, 1.9, 3.9])
@pytest.mark.expected_logs("No answer in time", "lost the lease")
def test_a_leader_without_answers_stops_before_the_lease_expires(after: float) -> None:
    async def main() -> None:
        kube, loop = Silent(), asyncio.get_running_loop()
        leader = LeaderElection(kube, "stoker", "operator", "one", clock=loop.time)
        await leader.acquire()
        await asyncio.sleep(after)
        renewed = kube.requests.count(("patch", "leases")) * 2.0  # seconds: the lease is renewed every two
        kube.silent = True
        await leader.lost.wait()
        assert loop.time() - renewed == 10.0
        await leader.release()

    run_virtual(main())


@pytest.mark.expected_logs("No answer in time")
def test_a_leader_continues_if_the_second_renewal_succeeds() -> None:
    async def main() -> None:
        kube, loop = Silent(), asyncio.get_running_loop()
        leader = LeaderElection(kube, "stoker", "operator", "one", clock=loop.time)
        await leader.acquire()
        kube.silent = True
        await asyncio.sleep(6.9)  # the first begins after 2 s, and is given up after 5
        kube.silent = False
        await asyncio.sleep(60.0)
        assert not leader.lost.is_set()
        await leader.release()

    run_virtual(main())


async def test_a_renewal_is_one_request() -> None:
    kube, clock = FakeKube(), Clock()
    leader = candidate(kube, "one", clock)
    await leader.acquire()
    asked = len(kube.requests)
    await eventually(lambda: len(kube.requests) >= asked + 3)
    assert set(kube.requests[asked : asked + 3]) == {("patch", "leases")}
    await leader.release()


class AnswersAreLost(FakeKube):
    """An API server that executes each patch, but whose answer arrives too late."""

    def __init__(self) -> None:
        super().__init__()
        self.patched = asyncio.Event()
        self.answers_lost = False

    async def patch(self, *args: Any, **kwargs: Any) -> Object:
        answer = await super().patch(*args, **kwargs)
        if self.answers_lost:
            self.patched.set()
            await asyncio.Event().wait()
        return answer


async def test_a_lease_is_released_after_a_lost_answer() -> None:
    async def turn(_: float) -> None:
        await asyncio.sleep(0)

    kube = AnswersAreLost()
    election = LeaderElection(kube, "stoker", "operator", "one", sleep=turn)
    await election.acquire()
    kube.answers_lost = True
    await kube.patched.wait()
    releasing = asyncio.create_task(election.release())
    await asyncio.sleep(0)
    kube.answers_lost = False
    await releasing
    assert (await kube.get(LEASES, "operator", "stoker"))["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("turns", range(12))
async def test_a_lease_can_be_released_at_any_time(turns: int) -> None:
    async def turn(_: float) -> None:
        await asyncio.sleep(0)

    election = LeaderElection(FakeKube(), "stoker", "leader", "one", sleep=turn)
    await election.acquire()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(SECONDS):
        await election.release()

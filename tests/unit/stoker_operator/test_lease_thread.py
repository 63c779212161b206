"""The thread of the Lease renews during a busy main loop. It ends a process that does not stop after a loss."""

import asyncio
import threading
import time
from contextlib import nullcontext

import pytest

from stoker_kube.api import Kube
from stoker_kube.lease import LeaderElection
from stoker_kube.resources import LEASES
from stoker_operator.processes.lease_thread import LeaseThread
from tests.fakes.kube import FakeKube

SECONDS = 30.0  # for a busy machine
RETRY = 0.005


class Candidate:
    """A candidate with short times. ``killed`` is set instead of the end of the process."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.killed = threading.Event()
        self.lease = LeaseThread(lambda: nullcontext(self.kube), self._elect, self.killed.set, fence=0.0)

    def _elect(self, kube: Kube) -> LeaderElection:
        return LeaderElection(kube, "stoker", "operator", "one", retry=RETRY)

    async def holder(self) -> str:
        return str((await self.kube.get(LEASES, "operator", "stoker"))["spec"]["holderIdentity"])

    async def steal(self) -> None:
        await self.kube.patch(LEASES, "operator", {"spec": {"holderIdentity": "thief"}}, "stoker")

    def renewals(self) -> int:
        return [verb for verb, _ in self.kube.requests].count("patch")


@pytest.fixture
async def candidate() -> Candidate:
    return Candidate()


async def test_the_lease_is_renewed_while_the_main_loop_is_busy(candidate: Candidate) -> None:
    async with candidate.lease as lease:
        await lease.acquire()
        before, end = candidate.renewals(), time.monotonic() + SECONDS
        while candidate.renewals() < before + 3:  # without an await, so that the main loop is blocked
            assert time.monotonic() < end


async def test_a_stop_hands_the_lease_over(candidate: Candidate) -> None:
    async with candidate.lease as lease:
        await lease.acquire()
    assert await candidate.holder() == ""


async def test_a_candidate_that_stops_waiting_leaves_the_holder(candidate: Candidate) -> None:
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 15}
    await candidate.kube.create(LEASES, {"metadata": {"name": "operator", "namespace": "stoker"}, "spec": spec})
    async with candidate.lease as lease:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(RETRY):
                await lease.acquire()
    assert await candidate.holder() == "other"


@pytest.mark.expected_logs("lost the lease")
async def test_a_loss_is_told_to_the_main_loop(candidate: Candidate) -> None:
    async with candidate.lease as lease, asyncio.timeout(SECONDS):
        await lease.acquire()
        await candidate.steal()
        await lease.lost.wait()
    assert await candidate.holder() == "thief"


@pytest.mark.expected_logs("lost the lease")
async def test_a_busy_process_is_killed_after_a_loss(candidate: Candidate) -> None:
    async with candidate.lease as lease:
        await lease.acquire()
        await candidate.steal()
        assert candidate.killed.wait(SECONDS)  # blocks the main loop

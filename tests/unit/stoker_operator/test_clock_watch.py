"""A leader whose clock is set back hands over. Otherwise it would wait for the times that it noted."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from stoker_kube.resources import LEASES
from stoker_operator.core.views import installed_names
from stoker_operator.errors import LeadershipLostError
from stoker_operator.processes import replica
from stoker_operator.processes.replica import LOOK_EVERY, Replica, ReplicaOptions, until_set_back
from tests.fakes.kube import FakeKube


async def set_back_by(*changes: float) -> float | None:
    """Return the reported step back of a clock that is set by these seconds between checks. None: no report."""
    now, left = [1_000.0, 5.0], iter(changes)

    async def sleep(seconds: float) -> None:
        assert seconds == LOOK_EVERY
        now[0] += seconds + next(left)
        now[1] += seconds

    try:
        return await until_set_back(lambda: now[0], lambda: now[1], sleep)
    except RuntimeError:  # a coroutine raises it when the changes end
        return None


async def test_a_clock_that_is_set_back_is_told_of_with_by_how_much() -> None:
    assert await set_back_by(0.0, 0.0, -3600.0) == pytest.approx(3600.0)


@pytest.mark.parametrize("changes", [(0.0, 3600.0, 0.0), (-9.0, -9.0, -9.0), (0.001, -0.001)])
async def test_a_clock_that_is_set_forward_or_corrected_by_little_is_not(changes: tuple[float, ...]) -> None:
    assert await set_back_by(*changes) is None


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let leaders work until they are canceled, and record that."""
    noted: list[str] = []

    class Work:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        async def run(self, *_: Any) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                noted.append("work")

    monkeypatch.setattr(replica, "Leader", Work)
    return noted


async def test_its_leader_ends_its_work_and_gives_the_lease_back(
    ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once() -> float:
        return 3600.0

    monkeypatch.setattr(replica, "until_set_back", at_once)
    kube = FakeKube()
    one = Replica(kube, lambda: nullcontext(kube), ReplicaOptions("stoker-system", "one", "127.0.0.1", 0))

    with pytest.raises(LeadershipLostError, match="the clock was set back by 3600 s"):
        await one._take_part(asyncio.Event())

    lease = await kube.get(LEASES, installed_names.LEASE, "stoker-system")
    assert (ended, lease["spec"]["holderIdentity"]) == (["work"], "")

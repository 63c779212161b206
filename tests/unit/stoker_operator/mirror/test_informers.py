"""When the API server was away, the mirror knows since when it answers again."""

import asyncio

import pytest

from stoker_kube.errors import Unavailable
from stoker_kube.resources import NODES, PODS, Kind
from stoker_operator.mirror.informers import Informers
from stoker_operator.mirror.state import ClusterState
from tests.fakes.kube import FakeKube


async def heard_since(failing: Kind) -> float:
    """Return since when the API server has answered, where the first list of a kind fails; the clock counts calls."""
    kube, state, times = FakeKube(), ClusterState("stoker"), iter(range(100))
    kube.fail_next("list", failing, Unavailable(0, "Unreachable", "Connection refused.", retry_after=0.001))
    informers = Informers(kube, state, lambda: float(next(times)))
    async with asyncio.TaskGroup() as tasks:
        running = informers.start(tasks)
        await informers.wait_synced()
        for task in running:
            task.cancel()
    return state.heard_since


@pytest.mark.expected_logs("is interrupted")
async def test_it_is_the_attempt_that_nodes_were_listed_by() -> None:
    assert await heard_since(NODES) == 1.0


@pytest.mark.expected_logs("is interrupted")
async def test_another_kind_says_nothing_of_the_server() -> None:
    assert await heard_since(PODS) == 0.0

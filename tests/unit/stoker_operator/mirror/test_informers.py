"""After an outage of the API server, the mirror knows since when it answers. No object is in memory twice."""

import asyncio

import pytest

from stoker_kube.errors import Unavailable
from stoker_kube.resources import NODES, PODS, Kind
from stoker_operator.core.plans.plan import NodeCacheWrite
from stoker_operator.core.views.cluster import NodeView
from stoker_operator.mirror.informers import Informers
from stoker_operator.mirror.state import ClusterState
from stoker_operator.writes.writer import Writer
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import given, listed, make_cache, make_dataset


async def heard_since(failing: Kind) -> float:
    """Return the time of the first answer if the first list of ``failing`` fails. The clock counts calls."""
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


async def test_what_a_watch_says_again_of_an_answer_to_our_own_write_is_not_kept_twice() -> None:
    kube, state = FakeKube(), ClusterState("stoker")
    spec = make_cache("a", (given(listed(make_dataset())), None)).spec
    answer = await Writer(kube).node_cache(NodeCacheWrite(NodeView("a"), spec, create=True))
    state.node_caches.put(answer.key, answer)
    informers = Informers(kube, state)
    async with asyncio.TaskGroup() as tasks:
        running = informers.start(tasks)
        await informers.wait_synced()
        listed_ones = [informer.mirror for informer in informers._all if "a" in informer.mirror]
        for task in running:
            task.cancel()
    assert [mirror["a"] is answer for mirror in listed_ones] == [True]
    assert state.node_caches.get("a") is answer

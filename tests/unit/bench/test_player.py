"""The player of sidecars, on an API server in memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bench.simulation.played_node import BYTES, Pace, version_of
from bench.simulation.player import Sidecars
from bench.simulation.shape import Temper, node_name, temper
from stoker_api.nodecache import NodeCache, NodePhase
from stoker_kube.resources import NODE_CACHES
from tests.fakes.kube import FakeKube
from tests.fakes.sidecar import settled
from tests.support.waiting import eventually, eventually_async

UID = "0f0f"
VERSION = version_of(UID)


class World:
    """An API server with NodeCaches, and the player."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.sidecars = Sidecars(self.kube, Pace(listing=0.01, warming=0.01))

    async def plan(self, node: str, **entry: Any) -> None:
        source = {"uri": "s3://bench/set/"}
        row = {"namespace": "training", "name": "set", "uid": UID, "source": source, "eager": True} | entry
        await self.kube.create(NODE_CACHES, {"metadata": {"name": node}, "spec": {"datasets": [row]}})

    async def replan(self, node: str, version: str) -> None:
        cache = await self.kube.get(NODE_CACHES, node)
        cache["spec"]["datasets"][0] |= {"version": version}
        await self.kube.patch(NODE_CACHES, node, {"spec": cache["spec"]})

    async def status(self, node: str) -> dict[str, Any]:
        return dict((await self.kube.get(NODE_CACHES, node)).get("status") or {})

    async def until_phase(self, node: str, phase: NodePhase) -> NodeCache:
        async def look() -> NodeCache | None:
            cache = NodeCache.model_validate(await self.kube.get(NODE_CACHES, node))
            rows = cache.status.datasets
            return cache if rows and rows[0].phase is phase else None

        return await eventually_async(look)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    playing = asyncio.create_task(made.sidecars.run())
    yield made
    await settled(playing)


def name_of(kind: Temper) -> str:
    return node_name(next(index for index in range(50) if temper(index) is kind))


async def test_a_sidecar_lists_what_it_is_asked_to_list(world: World) -> None:
    node = name_of(Temper.HONEST)
    await world.plan(node, listingId="abc-1")

    async def look() -> str | None:
        rows = (await world.status(node)).get("datasets") or [{}]
        return (rows[0].get("listing") or {}).get("version")

    assert await eventually_async(look) == VERSION


async def test_a_sidecar_warms_the_version_that_it_is_given(world: World) -> None:
    node = name_of(Temper.HONEST)
    await world.plan(node)
    await world.until_phase(node, NodePhase.PENDING)
    await world.replan(node, VERSION)
    cache = await world.until_phase(node, NodePhase.WARM)
    assert cache.status.datasets[0].warm_bytes == BYTES


async def test_a_silent_sidecar_writes_nothing(world: World) -> None:
    silent, honest = name_of(Temper.SILENT), name_of(Temper.HONEST)
    for node in (silent, honest):
        await world.plan(node, version=VERSION)
    await world.until_phase(honest, NodePhase.WARM)
    assert await world.status(silent) == {}


async def test_a_wrong_sidecar_writes_what_makes_no_sense(world: World) -> None:
    await world.plan(name_of(Temper.WRONG), version=VERSION)

    async def look() -> bool | None:
        return bool(await world.status(name_of(Temper.WRONG))) or None

    assert await eventually_async(look)


async def test_an_answer_counts_nodes_and_what_they_wrote(world: World) -> None:
    node = name_of(Temper.HONEST)
    await world.plan(node, version=VERSION)
    await world.until_phase(node, NodePhase.WARM)
    told = world.sidecars.answer({})
    assert (told["nodes"], told["busy"]) == (1, 0)
    assert told["counts"]["written"] >= 1


async def test_a_node_that_went_and_came_back_begins_anew(world: World) -> None:
    node = name_of(Temper.HONEST)
    await world.plan(node, version=VERSION)
    await world.until_phase(node, NodePhase.WARM)
    await world.kube.delete(NODE_CACHES, node)
    await eventually(lambda: world.sidecars.answer({})["nodes"] == 0)
    await world.plan(node, version=VERSION)
    assert (await world.until_phase(node, NodePhase.WARM)).status.datasets[0].warm_bytes == BYTES


async def test_only_a_node_that_holds_something_can_lose_it(world: World) -> None:
    node = name_of(Temper.HONEST)
    await world.plan(node, version=VERSION)
    await world.until_phase(node, NodePhase.WARM)
    assert world.sidecars.answer({"lose": [node, "kwok-09999"]})["lost"] == 1

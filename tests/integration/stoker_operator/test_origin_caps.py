"""Caps of origins on a real API server: the plans of nodes, and the report of a bucket that asks for less."""

import time
from typing import Any

from stoker_api.datasets.origin import NodeOrigin, OriginShare
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import format_time
from stoker_kube.resources import NODE_CACHES
from stoker_operator.core.views.conditions import find
from tests.fakes.sidecar import FakeSidecar
from tests.integration.stoker_operator.conftest import World

CAP = 10**9


def _fetching(bucket: str) -> NodeOrigin:
    return NodeOrigin(name=bucket, fetching=True, bytes_per_second=2000, milli_requests_per_second=3000)


async def _until_told(world: World, sidecar: FakeSidecar, bucket: str, least: int, most: int) -> None:
    """Wait until a node has this limit of bytes per second for the bucket."""

    def share(raw: dict[str, Any]) -> OriginShare | None:
        return next((one for one in NodeCache.model_validate(raw).spec.origins if one.name == bucket), None)

    def told(raw: dict[str, Any]) -> bool:
        found = share(raw)
        return found is not None and least <= (found.bytes_per_second or 0) <= most

    await world.until(NODE_CACHES, sidecar.node, told)


async def _report(sidecar: FakeSidecar, row: NodeOrigin) -> None:
    sidecar.origins = (row,)
    await sidecar.report()


async def test_a_cap_is_divided_over_the_nodes_that_fetch(world: World) -> None:
    bucket = "s3://capped-0"
    one, other = await world.add_node(), await world.add_node()
    await world.add_dataset(source={"uri": f"{bucket}/train/"}, cache={"replicas": "all"})
    await _until_told(world, one, bucket, 1, CAP * 8 // 100)

    await _report(one, _fetching(bucket))
    await _until_told(world, one, bucket, CAP * 9 // 10, CAP * 9 // 10)
    await _report(other, _fetching(bucket))
    await _until_told(world, other, bucket, CAP * 9 // 20, CAP * 9 // 20)

    await _until_told(world, one, bucket, CAP * 9 // 20, CAP * 9 // 20)


async def test_a_slowdown_at_one_node_slows_the_other_and_is_said(world: World) -> None:
    bucket = "s3://capped-1"
    one, other = await world.add_node(), await world.add_node()
    await world.add_dataset(source={"uri": f"{bucket}/train/"}, cache={"replicas": "all"})
    for sidecar in (one, other):
        await _until_told(world, sidecar, bucket, 1, CAP)
        await _report(sidecar, _fetching(bucket))

    await _report(one, _fetching(bucket).model_copy(update={"throttled_at": format_time(time.time())}))

    await _until_told(world, other, bucket, 1, 2000)
    dataset = await world.until_dataset(
        lambda one: find(one.status.conditions, ConditionType.SOURCE_SLOWED) is not None
    )
    slowed = find(dataset.status.conditions, ConditionType.SOURCE_SLOWED)
    assert slowed is not None
    assert (slowed.status, slowed.reason) == ("True", Reason.SLOW_DOWN)
    await world.until_events(Reason.SLOW_DOWN)


async def test_a_forecast_is_there_before_anything_is_fetched(world: World) -> None:
    bucket = "s3://capped-2"
    await world.add_node()
    await world.add_dataset(source={"uri": f"{bucket}/train/"}, warm={"policy": "Manual"})

    dataset = await world.until_dataset(lambda one: one.status.forecast is not None)

    forecast = dataset.status.forecast
    assert forecast is not None
    assert (forecast.origin_bytes, forecast.origin_requests, forecast.cost) == (2_000_000, 1800, "0.10 EUR")
    assert forecast.seconds == 1

"""Gated pods, gate times, warm-up times and late Datasets in metrics."""

import pytest
from prometheus_client import REGISTRY

from stoker_api.times import format_time
from stoker_kube.resources import PODS
from tests.unit.stoker_operator.builders import make_class
from tests.unit.stoker_operator.gate_world import World
from tests.unit.stoker_operator.world import World as DatasetWorld


def held(reason: str) -> float:
    return REGISTRY.get_sample_value("stoker_held_pods", {"reason": reason}) or 0.0


def histogram(name: str, **labels: str) -> tuple[float, float]:
    """Return the count and the sum of a histogram."""
    count, total = (REGISTRY.get_sample_value(f"{name}_{part}", labels) or 0.0 for part in ("count", "sum"))
    return count, total


async def test_a_held_pod_counts_until_it_is_released() -> None:
    world = World()
    await world.add_pod()
    world.warm(0.5)
    await world.step()
    assert held("WaitingForData") == 1.0
    world.warm()
    await world.step()
    assert held("WaitingForData") == 0.0


async def test_a_deleted_pod_is_not_held() -> None:
    world = World()
    await world.add_pod()
    world.warm(0.5)
    await world.step()
    await world.kube.delete(PODS, "p", "vision")
    world.state.pods.put("vision/p", None)
    await world.step()
    assert held("WaitingForData") == 0.0


async def test_a_release_adds_the_seconds_that_the_pod_was_held() -> None:
    world = World()
    count, seconds = histogram("stoker_pod_hold_seconds", reason="Released")
    await world.add_pod()
    world.warm(0.5)
    await world.step()
    world.now += 40
    world.warm()
    await world.step()
    assert histogram("stoker_pod_hold_seconds", reason="Released") == (count + 1, seconds + 40)


async def test_a_warm_up_is_counted_once_it_ends() -> None:
    world = DatasetWorld()
    count, seconds = histogram("stoker_dataset_warm_up_seconds")
    world.add_node("a")
    await world.start(passes=2)
    await world.report(0)
    await world.run()
    world.now += 30
    await world.report(1000)
    await world.run(2)
    assert histogram("stoker_dataset_warm_up_seconds") == (count + 1, seconds + 30)


def late(reason: str) -> float:
    return REGISTRY.get_sample_value("stoker_late_datasets", {"reason": reason}) or 0.0


@pytest.fixture
def deadlines() -> DatasetWorld:
    """Make a world with a node, where Datasets may have deadlines."""
    world = DatasetWorld()
    world.add_node("a")
    world.state.dataset_classes.put("tenants", make_class(default=True, allow_deadlines=True))
    return world


async def test_a_dataset_is_late_until_it_is_warm(deadlines: DatasetWorld) -> None:
    world = deadlines
    await world.start(passes=2, warm={"deadline": {"at": format_time(world.now + 10)}})
    await world.report(0)
    await world.run(2)
    assert late("DeadlineMissed") == 0.0
    world.now += 11
    await world.run(2)
    assert late("DeadlineMissed") == 1.0
    await world.report(1000)
    await world.run(2)
    assert late("DeadlineMissed") == 0.0


async def test_a_deleted_dataset_is_not_late(deadlines: DatasetWorld) -> None:
    world = deadlines
    await world.start(passes=2, warm={"deadline": {"at": format_time(world.now - 10)}})
    await world.report(0)
    await world.run(2)
    assert late("DeadlineMissed") == 1.0
    world.state.datasets.put("vision/imagenet", None)
    await world.step()
    assert late("DeadlineMissed") == 0.0


def test_the_table_that_the_alert_on_missing_sidecars_reads_has_its_name() -> None:
    assert "node_caches" in DatasetWorld().state.sizes()

"""A rejected write or a failed computation of one Dataset becomes its condition and delays no other Dataset."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import Condition
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.errors import Forbidden, Invalid, NotFound, Unavailable
from stoker_kube.resources import DATASETS, NODE_CACHES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, ROLES, Kind
from stoker_operator.core.incremental import dataset_decision
from stoker_operator.core.plans.listing import decide_listing
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import V1, condition
from tests.unit.stoker_operator.world import World


class Picky(FakeKube):
    """An API server that rejects NodeCaches with certain entries, and counts requests."""

    def __init__(self, refused: set[str]) -> None:
        super().__init__()
        self.refused = refused

    async def apply(self, kind: Kind, body: Any, **options: Any) -> Any:
        if kind is NODE_CACHES and self.refused & {one["name"] for one in body["spec"]["datasets"]}:
            self.requests.append(("refused", kind.plural))
            raise Invalid(422, "Invalid", "spec.datasets: too odd")
        return await super().apply(kind, body, **options)


async def reconciled(world: World, name: str = "imagenet") -> Condition:
    """Return the condition about failed writes of a Dataset."""
    return condition((await world.dataset(name)).status, ConditionType.RECONCILED)


@pytest.mark.expected_logs("trying again")
async def test_a_refused_write_stops_no_other(world: World) -> None:
    world.add_node("b")
    await world.add_dataset()
    world.kube.fail_next("patch", NODE_CACHES, Forbidden(403, "Forbidden", "no"))
    await world.step()
    assert len(world.kube.objects(NODE_CACHES)) == 1


@pytest.mark.expected_logs("trying again")
async def test_what_failed_is_tried_again_when_its_time_comes(world: World) -> None:
    await world.add_dataset()
    world.kube.fail_next("patch", NODE_CACHES, Unavailable(503, "Down", "down"))
    world.now += await world.step() or 0.0
    await world.step()
    assert len(world.kube.objects(NODE_CACHES)) == 1


@pytest.mark.expected_logs("exceeded quota")
async def test_a_namespace_that_takes_no_claim_delays_no_other(world: World) -> None:
    world.kube.refuse("create", PERSISTENT_VOLUME_CLAIMS, Forbidden(403, "Forbidden", "exceeded quota: none"))
    for name in ("imagenet", "coco"):
        await world.add_dataset(name)
    for _ in range(3):
        await world.step()
    found = await reconciled(world)
    assert (found.status, "exceeded quota: none" in found.message) == ("False", True)
    assert ("Warning", Reason.WRITE_FAILED) in world.events.seen
    assert (await world.dataset("coco")).status.listing_node == "a"
    assert len((await world.cache()).spec.datasets) == 2


@pytest.mark.expected_logs("is being terminated")
async def test_a_namespace_that_takes_no_role_delays_no_other(world: World) -> None:
    world.kube.refuse("patch", ROLES, Forbidden(403, "Forbidden", "the namespace is being terminated"))
    await world.add_dataset(source={"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}})
    await world.step()
    await world.step()
    assert (await world.dataset()).status.listing_node == "a"


@pytest.mark.expected_logs("trying again")
async def test_a_volume_that_cannot_be_removed_holds_its_dataset_and_no_other(world: World) -> None:
    for name in ("imagenet", "coco"):
        await world.start(name, passes=2)
    await world.kube.delete(DATASETS, "imagenet", "vision")
    world.kube.fail_next("delete", PERSISTENT_VOLUMES, Forbidden(403, "Forbidden", "no"))
    await world.run(2)
    assert names.FINALIZER in (await world.dataset()).metadata.finalizers
    assert (await world.dataset("coco")).status.listing_node == "a"
    world.now += 3
    await world.run(2)
    assert len(world.kube.objects(DATASETS)) == 1


@pytest.mark.expected_logs("cannot get Dataset vision/odd")
async def test_a_node_cache_that_some_datasets_spoil_is_written_without_them() -> None:
    kube = Picky({"odd-1", "odd-2"})
    world = World(kube)
    world.add_node("a")
    for number in range(8):
        await world.add_dataset(f"good-{number}")
    for number in (1, 2):
        await world.start(f"odd-{number}", passes=3)
    assert {entry.name for entry in (await world.cache()).spec.datasets} == {f"good-{number}" for number in range(8)}
    assert "a cannot get it: spec.datasets: too odd" in (await reconciled(world, "odd-1")).message
    refusals = world.kube.requests.count(("refused", "nodecaches"))
    assert refusals < 12
    await world.start("later", passes=2)
    assert "later" in {entry.name for entry in (await world.cache()).spec.datasets}
    assert world.kube.requests.count(("refused", "nodecaches")) == refusals


@pytest.mark.expected_logs("cannot get Dataset vision/odd")
async def test_a_refused_entry_is_tried_again_and_taken_when_nothing_is_odd_any_more() -> None:
    kube = Picky({"odd"})
    world = World(kube)
    world.add_node("a")
    await world.start("odd", passes=2)
    kube.refused.clear()
    world.now += 11
    await world.run(3)
    assert [entry.name for entry in (await world.cache()).spec.datasets] == ["odd"]
    assert (await reconciled(world, "odd")).status == "True"


@pytest.mark.expected_logs("cannot get Dataset vision/odd")
async def test_what_a_node_came_back_with_is_not_cleaned_because_its_entry_is_refused() -> None:
    kube = Picky({"odd"})
    world = World(kube)
    world.add_node("a")
    await world.start("odd")
    row = {"namespace": "", "name": "", "uid": (await world.dataset("odd")).metadata.uid, "retained": [V1]}
    status = {"inventory": True, "datasets": [row]}
    raw = await kube.patch(NODE_CACHES, "a", {"status": status}, subresource="status")
    world.state.node_caches.put("a", NodeCache.model_validate(raw))
    await world.run(2)
    spec = (await world.cache()).spec
    assert (spec.datasets, spec.keep_unlisted, spec.keep) == ((), False, (row["uid"],))
    kube.refused.clear()
    world.now += 11
    await world.run(3)
    spec = (await world.cache()).spec
    assert ([entry.name for entry in spec.datasets], spec.keep) == (["odd"], ())


@pytest.mark.parametrize("spec", [{"replicas": 9_000_000_000_000_000_000}, {"quota": "10000P"}])
async def test_figures_beyond_64_bits_end_with_a_condition_and_reach_no_node(
    world: World, spec: dict[str, Any]
) -> None:
    await world.add_dataset("odd", cache=spec)
    await world.start(passes=2)
    assert [entry.name for entry in (await world.cache()).spec.datasets] == ["imagenet"]
    raw = await world.kube.get(DATASETS, "odd", "vision")
    assert {one["type"]: one["status"] for one in raw["status"]["conditions"]}["Accepted"] == "False"


@pytest.mark.expected_logs("caused an internal error", "odd")
async def test_what_cannot_be_worked_out_for_one_becomes_its_condition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(view: Any, dataset: Dataset, *rest: Any) -> Any:
        if dataset.metadata.name == "odd":
            raise ArithmeticError("odd")
        return decide_listing(view, dataset, *rest)

    monkeypatch.setattr(dataset_decision, "decide_listing", odd)
    for name in ("odd", "imagenet"):
        await world.start(name, passes=2)
    assert (await world.dataset()).status.listing_node == "a"
    assert "please report it: ArithmeticError('odd')" in (await reconciled(world, "odd")).message


@pytest.mark.expected_logs("its status is too odd")
async def test_a_status_that_is_not_taken_is_written_as_it_was_with_the_reason(world: World) -> None:
    await world.start()
    await world.kube.patch(DATASETS, "imagenet", {"spec": {"cache": {"replicas": 2}}}, "vision")
    world.kube.fail_next("patch", DATASETS, Invalid(422, "Invalid", "its status is too odd"))
    await world.run()
    assert "its status is too odd" in (await reconciled(world)).message


async def test_in_a_namespace_whose_datasets_all_go_no_role_is_written(world: World) -> None:
    for name in ("one", "two"):
        credentials = {"secretRef": {"name": f"keys-of-{name}"}}
        await world.start(name, source={"uri": "s3://bucket/", "credentials": credentials}, passes=2)
    world.kube.refuse("patch", ROLES, Forbidden(403, "Forbidden", "the namespace is being terminated"))
    for name in ("one", "two"):
        await world.kube.delete(DATASETS, name, "vision")
    for name in ("one", "two"):
        await world.run(2)
        world.state.datasets.put(f"vision/{name}", None)
    await world.run(2)
    assert world.kube.objects(ROLES) == []


async def test_a_404_for_a_dataset_that_is_there_takes_it_from_no_node(world: World) -> None:
    await world.start(passes=2)
    await world.kube.patch(DATASETS, "imagenet", {"spec": {"cache": {"replicas": 2}}}, "vision")
    await world.see()
    world.kube.fail_next("patch", DATASETS, NotFound(404, "NotFound", "its kind is not served for a moment"))
    for _ in range(3):
        await world.step()
    assert [entry.name for entry in (await world.cache()).spec.datasets] == ["imagenet"]

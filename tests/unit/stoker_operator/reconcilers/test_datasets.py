"""The pass over Datasets against the in-memory API server."""

import itertools
from typing import Any

import pytest

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.names import ConditionType, Reason
from stoker_api.nodecache import NodeCache
from stoker_kube.errors import Forbidden, Invalid, NotFound, Unavailable
from stoker_kube.events import EventRecorder, ObjectRef
from stoker_kube.resources import (
    DATASETS,
    NODE_CACHES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    ROLES,
    Kind,
)
from stoker_operator.core import dataset_decision
from stoker_operator.core.acceptance import parse_dataset
from stoker_operator.core.conditions import find
from stoker_operator.core.listing import decide_listing
from stoker_operator.core.views import parse_pod
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.dataset_statuses import FIGURES_EVERY
from stoker_operator.reconcilers.datasets import DatasetReconciler
from stoker_operator.writer import Writer
from tests.fakes.kube import FakeKube
from tests.fakes.sidecar import DAEMON_SET
from tests.unit.stoker_operator.builders import NOW, V1, make_node, report


class Recorded(EventRecorder):
    """Keeps events instead of writing them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def event(self, ref: ObjectRef, type: str, reason: str, message: str) -> None:
        self.seen.append((type, str(reason)))


class World:
    """An API server, the mirror of it, and a clock. Nodes and sidecars exist in the mirror only."""

    def __init__(self, kube: FakeKube | None = None) -> None:
        self.kube = kube or FakeKube()
        self.state = ClusterState("stoker")
        self.events = Recorded()
        self.now = NOW
        self.reconciler = DatasetReconciler(self.state, Writer(self.kube), self.events, lambda: self.now)

    def add_node(self, name: str) -> None:
        self.state.nodes.put(name, make_node(name))
        labels = {"app.kubernetes.io/component": "sidecar"}
        meta = {"namespace": "stoker", "name": f"s-{name}", "labels": labels, "ownerReferences": [DAEMON_SET]}
        raw: dict[str, Any] = {"metadata": meta}
        raw |= {"spec": {"nodeName": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        self.state.pods.put(f"stoker/s-{name}", parse_pod(raw))

    async def add_dataset(self, name: str = "imagenet", **spec: Any) -> None:
        body = {"source": {"uri": "s3://bucket/"}} | spec
        await self.kube.create(DATASETS, {"metadata": {"name": name, "namespace": "vision"}, "spec": body})
        await self.see(name)

    async def see(self, name: str = "imagenet") -> None:
        """Bring the mirror to what the API server has."""
        found = {one["metadata"]["name"]: one for one in self.kube.objects(DATASETS)}
        self.state.datasets.put(f"vision/{name}", parse_dataset(found[name]) if name in found else None)

    async def step(self) -> float | None:
        """Make a pass, and wait for what came of it; gives seconds until the next is due."""
        again, work = await self.reconciler.reconcile(), self.reconciler.work
        await work.settled()
        return min((one for one in (again, work.due()) if one is not None), default=None)

    async def run(self, passes: int = 1) -> None:
        """Make so many passes, each with the Datasets as they are."""
        for _ in range(passes):
            for name in [one["metadata"]["name"] for one in self.kube.objects(DATASETS)]:
                await self.see(name)
            await self.step()

    async def dataset(self, name: str = "imagenet") -> Dataset:
        return Dataset.model_validate(await self.kube.get(DATASETS, name, "vision"))

    async def cache(self, name: str = "a") -> NodeCache:
        return NodeCache.model_validate(await self.kube.get(NODE_CACHES, name))

    async def report(self, warm: int, node: str = "a") -> None:
        """Answer what the sidecar was given, with so many of 1000 bytes warm."""
        cache, dataset = await self.cache(node), await self.dataset()
        entry = cache.spec.datasets[0]
        answer = {"id": entry.listing_id, "version": V1, "files": 10, "bytes": 1000}
        row = report(dataset, warm).model_copy(update={"version": entry.version}).wire() | {"listing": answer}
        status = {"datasets": [row], "availableBytes": 10**6, "address": f"{node}:8081"}
        raw = await self.kube.patch(NODE_CACHES, node, {"status": status}, subresource="status")
        self.state.node_caches.put(node, NodeCache.model_validate(raw))


@pytest.fixture
def world() -> World:
    made = World()
    made.add_node("a")
    return made


async def test_a_node_gets_its_cache_and_the_dataset_in_two_passes(world: World) -> None:
    await world.add_dataset()
    await world.step()
    await world.step()
    raw = await world.kube.get(NODE_CACHES, "a")
    assert raw["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert [entry.name for entry in (await world.cache()).spec.datasets] == ["imagenet"]
    assert (await world.dataset()).status.listing_node == "a"


async def test_a_pass_with_nothing_new_writes_nothing(world: World) -> None:
    await world.add_dataset()
    for _ in range(3):
        await world.step()
    before = [
        item["metadata"]["resourceVersion"] for kind in (DATASETS, NODE_CACHES) for item in world.kube.objects(kind)
    ]
    world.now += 60
    await world.step()
    after = [
        item["metadata"]["resourceVersion"] for kind in (DATASETS, NODE_CACHES) for item in world.kube.objects(kind)
    ]
    assert after == before


async def test_figures_are_written_every_two_seconds_at_most_and_transitions_at_once(world: World) -> None:
    await world.add_dataset()
    for warm in (0, 100):
        await world.step()
        await world.step()
        await world.report(warm)
    world.now += FIGURES_EVERY
    await world.step()
    assert (await world.dataset()).status.cached_percent == "10%"
    await world.report(200)
    again = await world.step()
    assert ((await world.dataset()).status.cached_percent, again) == ("10%", FIGURES_EVERY)
    world.now += FIGURES_EVERY
    await world.step()
    assert (await world.dataset()).status.cached_percent == "20%"
    await world.report(1000)
    await world.step()
    assert (await world.dataset()).status.phase == "Ready"
    assert ("Normal", Reason.WARM) in world.events.seen


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
    reconciled = find((await world.dataset()).status.conditions, ConditionType.RECONCILED)
    assert reconciled is not None
    assert (reconciled.status, "exceeded quota: none" in reconciled.message) == ("False", True)
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


@pytest.mark.parametrize("uri", ["s3://bucket/", "gs://bucket/"], ids=["valid", "invalid"])
async def test_a_dataset_is_held_from_its_first_pass_on(world: World, uri: str) -> None:
    await world.add_dataset(source={"uri": uri})
    await world.run()
    assert world.kube.objects(DATASETS)[0]["metadata"]["finalizers"] == [names.FINALIZER]


async def test_nothing_but_finalizer_and_status_is_written_onto_a_dataset(world: World) -> None:
    await world.add_dataset()
    before = world.kube.objects(DATASETS)[0]
    await world.run(3)
    after = world.kube.objects(DATASETS)[0]
    del after["status"]
    for field in ("resourceVersion", "generation"):
        del before["metadata"][field], after["metadata"][field]
    before["metadata"]["finalizers"] = [names.FINALIZER]
    assert after == before


async def test_finalizers_of_others_are_left_alone(world: World) -> None:
    await world.add_dataset()
    await world.kube.patch(DATASETS, "imagenet", {"metadata": {"finalizers": ["theirs.dev/x"]}}, "vision")
    await world.run()
    assert world.kube.objects(DATASETS)[0]["metadata"]["finalizers"] == ["theirs.dev/x", names.FINALIZER]
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.run(2)
    assert world.kube.objects(DATASETS)[0]["metadata"]["finalizers"] == ["theirs.dev/x"]


@pytest.mark.parametrize("uri", ["s3://bucket/", "gs://bucket/"], ids=["valid", "invalid"])
async def test_a_deleted_dataset_that_nobody_has_goes_with_what_was_made_for_it(world: World, uri: str) -> None:
    await world.add_dataset(source={"uri": uri})
    await world.run()
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.run(2)
    assert world.kube.objects(DATASETS) == world.kube.objects(PERSISTENT_VOLUMES) == []


async def test_a_deleted_dataset_stays_while_a_node_has_it(world: World) -> None:
    await world.add_dataset()
    await world.run(2)
    await world.report(warm=1000)
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.run(2)
    assert (await world.dataset()).status.phase == "Terminating"


async def test_a_dataset_that_changed_meanwhile_is_held_in_the_next_pass(world: World) -> None:
    await world.add_dataset()
    await world.kube.patch(DATASETS, "imagenet", {"metadata": {"labels": {"a": "b"}}}, "vision")
    await world.step()
    assert "finalizers" not in world.kube.objects(DATASETS)[0]["metadata"]
    await world.run()
    assert world.kube.objects(DATASETS)[0]["metadata"]["finalizers"] == [names.FINALIZER]


@pytest.mark.expected_logs("trying again")
async def test_a_volume_that_cannot_be_removed_holds_its_dataset_and_no_other(world: World) -> None:
    for name in ("imagenet", "coco"):
        await world.add_dataset(name)
    await world.run(2)
    await world.kube.delete(DATASETS, "imagenet", "vision")
    world.kube.fail_next("delete", PERSISTENT_VOLUMES, Forbidden(403, "Forbidden", "no"))
    await world.run(2)
    assert names.FINALIZER in (await world.dataset()).metadata.finalizers
    assert (await world.dataset("coco")).status.listing_node == "a"
    world.now += 3
    await world.run(2)
    assert len(world.kube.objects(DATASETS)) == 1


async def test_a_new_spec_is_told_of_once(world: World) -> None:
    await world.add_dataset()
    await world.run(2)
    await world.kube.patch(DATASETS, "imagenet", {"spec": {"cache": {"replicas": 2}}}, "vision")
    await world.run(2)
    assert [reason for _, reason in world.events.seen].count("Accepted") == 2


async def test_a_dataset_with_an_emoji_is_written_like_any_other(world: World) -> None:
    await world.add_dataset(source={"uri": "s3://bucket/\U0001f600/", "include": ["\U0001f600*"]})
    await world.step()
    await world.step()
    assert (await world.cache()).spec.datasets[0].source.uri == "s3://bucket/\U0001f600/"


async def test_a_dataset_that_does_not_parse_says_why(world: World) -> None:
    await world.add_dataset(source={"uri": "gs://bucket/"})
    await world.step()
    accepted = (await world.dataset()).status.conditions[0]
    assert (accepted.type, accepted.status) == ("Accepted", "False")
    assert "gs://bucket/ is not supported" in accepted.message
    assert ("Warning", Reason.INVALID_SPEC) in world.events.seen


async def test_volume_and_claim_are_made_and_a_released_volume_is_made_anew(world: World) -> None:
    await world.add_dataset()
    await world.run(3)
    volume = world.kube.objects(PERSISTENT_VOLUMES)[0]
    assert len(world.kube.objects(PERSISTENT_VOLUME_CLAIMS)) == 1
    status = {"status": {"phase": "Released"}}
    await world.kube.patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], status, subresource="status")
    world.now += 3600
    await world.run()
    assert world.kube.objects(PERSISTENT_VOLUMES)[0]["metadata"]["uid"] != volume["metadata"]["uid"]


async def test_a_foreign_claim_is_left_alone_and_told(world: World) -> None:
    foreign = {"metadata": {"name": "imagenet", "namespace": "vision"}, "spec": {"volumeName": "theirs"}}
    await world.kube.create(PERSISTENT_VOLUME_CLAIMS, foreign)
    await world.add_dataset()
    await world.run(3)
    claim = await world.kube.get(PERSISTENT_VOLUME_CLAIMS, "imagenet", "vision")
    assert claim["spec"]["volumeName"] == "theirs"
    world.now += FIGURES_EVERY
    await world.run()
    assert "is not Stoker's" in (await world.dataset()).status.conditions[0].message
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.run()
    assert len(world.kube.objects(PERSISTENT_VOLUME_CLAIMS)) == 1


class Picky(FakeKube):
    """An API server that takes no NodeCache with an entry of certain names, and counts what it is asked."""

    def __init__(self, refused: set[str]) -> None:
        super().__init__()
        self.refused = refused

    async def apply(self, kind: Kind, body: Any, **options: Any) -> Any:
        if kind is NODE_CACHES and self.refused & {one["name"] for one in body["spec"]["datasets"]}:
            self.requests.append(("refused", kind.plural))
            raise Invalid(422, "Invalid", "spec.datasets: too odd")
        return await super().apply(kind, body, **options)


@pytest.mark.expected_logs("cannot be given Dataset vision/odd")
async def test_a_node_cache_that_some_datasets_spoil_is_written_without_them() -> None:
    kube = Picky({"odd-1", "odd-2"})
    world = World(kube)
    world.add_node("a")
    for number in range(8):
        await world.add_dataset(f"good-{number}")
    for number in (1, 2):
        await world.add_dataset(f"odd-{number}")
    await world.run(3)
    assert {entry.name for entry in (await world.cache()).spec.datasets} == {f"good-{number}" for number in range(8)}
    reconciled = find((await world.dataset("odd-1")).status.conditions, ConditionType.RECONCILED)
    assert reconciled is not None
    assert "a cannot be given it: spec.datasets: too odd" in reconciled.message
    refusals = world.kube.requests.count(("refused", "nodecaches"))
    assert refusals < 12
    await world.add_dataset("later")
    await world.run(2)
    assert "later" in {entry.name for entry in (await world.cache()).spec.datasets}
    assert world.kube.requests.count(("refused", "nodecaches")) == refusals


@pytest.mark.expected_logs("cannot be given Dataset vision/odd")
async def test_a_refused_entry_is_tried_again_and_taken_when_nothing_is_odd_any_more() -> None:
    kube = Picky({"odd"})
    world = World(kube)
    world.add_node("a")
    await world.add_dataset("odd")
    await world.run(2)
    kube.refused.clear()
    world.now += 11
    await world.run(3)
    assert [entry.name for entry in (await world.cache()).spec.datasets] == ["odd"]
    reconciled = find((await world.dataset("odd")).status.conditions, ConditionType.RECONCILED)
    assert reconciled is not None
    assert reconciled.status == "True"


@pytest.mark.expected_logs("cannot be given Dataset vision/odd")
async def test_what_a_node_came_back_with_is_not_cleaned_because_its_entry_is_refused() -> None:
    kube = Picky({"odd"})
    world = World(kube)
    world.add_node("a")
    await world.add_dataset("odd")
    await world.run()
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
    await world.add_dataset()
    await world.run(2)
    assert [entry.name for entry in (await world.cache()).spec.datasets] == ["imagenet"]
    raw = await world.kube.get(DATASETS, "odd", "vision")
    assert {one["type"]: one["status"] for one in raw["status"]["conditions"]}["Accepted"] == "False"


@pytest.mark.expected_logs("cannot be worked out", "odd")
async def test_what_cannot_be_worked_out_for_one_becomes_its_condition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(view: Any, dataset: Dataset, *rest: Any) -> Any:
        if dataset.metadata.name == "odd":
            raise ArithmeticError("odd")
        return decide_listing(view, dataset, *rest)

    monkeypatch.setattr(dataset_decision, "decide_listing", odd)
    for name in ("odd", "imagenet"):
        await world.add_dataset(name)
    await world.run(2)
    assert (await world.dataset()).status.listing_node == "a"
    reconciled = find((await world.dataset("odd")).status.conditions, ConditionType.RECONCILED)
    assert reconciled is not None
    assert "please report this: ArithmeticError('odd')" in reconciled.message


@pytest.mark.expected_logs("its status is too odd")
async def test_a_status_that_is_not_taken_is_written_as_it_was_with_the_reason(world: World) -> None:
    await world.add_dataset()
    await world.run()
    await world.kube.patch(DATASETS, "imagenet", {"spec": {"cache": {"replicas": 2}}}, "vision")
    world.kube.fail_next("patch", DATASETS, Invalid(422, "Invalid", "its status is too odd"))
    await world.run()
    reconciled = find((await world.dataset()).status.conditions, ConditionType.RECONCILED)
    assert reconciled is not None
    assert "its status is too odd" in reconciled.message


async def test_in_a_namespace_whose_datasets_all_go_no_role_is_written(world: World) -> None:
    for name in ("one", "two"):
        credentials = {"secretRef": {"name": f"keys-of-{name}"}}
        await world.add_dataset(name, source={"uri": "s3://bucket/", "credentials": credentials})
    await world.run(2)
    world.kube.refuse("patch", ROLES, Forbidden(403, "Forbidden", "the namespace is being terminated"))
    for name in ("one", "two"):
        await world.kube.delete(DATASETS, name, "vision")
    for name in ("one", "two"):
        await world.run(2)
        world.state.datasets.put(f"vision/{name}", None)
    await world.run(2)
    assert world.kube.objects(ROLES) == []


async def test_a_404_for_a_dataset_that_is_there_takes_it_from_no_node(world: World) -> None:
    await world.add_dataset()
    await world.run(2)
    await world.kube.patch(DATASETS, "imagenet", {"spec": {"cache": {"replicas": 2}}}, "vision")
    await world.see()
    world.kube.fail_next("patch", DATASETS, NotFound(404, "NotFound", "its kind is not served for a moment"))
    for _ in range(3):
        await world.step()
    assert [entry.name for entry in (await world.cache()).spec.datasets] == ["imagenet"]


async def test_a_volume_that_is_there_costs_two_reads_at_a_time_of_its_own(world: World) -> None:
    for number in range(20):
        await world.add_dataset(f"data-{number}")
    await world.run(4)
    world.kube.requests.clear()
    looked = []
    for _ in range(30):
        world.now += 10.0
        await world.run()
        looked.append(world.kube.requests.count(("get", "persistentvolumes")))
    assert looked[13] == 0  # 140 s after the first looks: none comes sooner than half of the 300 s
    assert looked[-1] >= 20
    assert max(b - a for a, b in itertools.pairwise(looked)) < 10
    assert {verb for verb, kind in world.kube.requests if kind.startswith("persistent")} == {"get"}

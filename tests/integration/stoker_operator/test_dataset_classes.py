"""Limits that an administrator sets for tenants, on a real API server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.errors import NotFound
from stoker_kube.resources import DATASET_CLASSES, DATASETS, NODE_CACHES
from stoker_operator.core.views.conditions import find
from tests.fakes.sidecar import BYTES
from tests.integration.stoker_operator.conftest import SECONDS, World, mount_is_known
from tests.support.apiserver import ApiServer
from tests.support.chart import of_kind, render
from tests.support.kinds import NAMESPACES
from tests.support.waiting import eventually_async


class Classes:
    """The classes of one test, only for its namespace and with its name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[str] = []

    def name(self, short: str) -> str:
        return f"{short}-{self._world.namespace}"

    async def make(self, short: str, *, default: bool = False, **spec: Any) -> str:
        """Make a class and return its name. Raises Invalid."""
        annotations = {names.ANNOTATION_DEFAULT_CLASS: "true"} if default else {}
        body = {"metadata": {"name": self.name(short), "annotations": annotations}}
        spec = {"namespaces": [f"{self._world.namespace}*"]} | spec
        await self._world.kube.create(DATASET_CLASSES, body | {"spec": spec})
        self._made.append(self.name(short))
        return self.name(short)

    async def change(self, short: str, **spec: Any) -> None:
        await self._world.kube.patch(DATASET_CLASSES, self.name(short), {"spec": spec})

    async def delete(self, short: str) -> None:
        await self._world.kube.delete(DATASET_CLASSES, self.name(short))

    async def delete_all(self) -> None:
        for name in self._made:
            try:
                await self._world.kube.delete(DATASET_CLASSES, name)
            except NotFound:
                continue


@pytest.fixture
async def classes(world: World) -> AsyncIterator[Classes]:
    """Make classes that end with the test: the Datasets of other tests have none."""
    made = Classes(world)
    yield made
    await made.delete_all()


def is_accepted(dataset: Dataset, *, reason: Reason = Reason.ACCEPTED) -> bool:
    found = find(dataset.status.conditions, ConditionType.ACCEPTED)
    return found is not None and found.reason == reason


def limits(dataset: Dataset) -> str:
    found = find(dataset.status.conditions, ConditionType.LIMITED)
    return found.message if found is not None and found.status == "True" else ""


async def until_entry(world: World, node: str, condition: Any, dataset: str = "digits") -> NodeDataset:
    """Return a node's plan of a Dataset when the condition holds."""

    def find_entry(raw: dict[str, Any]) -> NodeDataset | None:
        entries = NodeCache.model_validate(raw).spec.datasets
        return next((one for one in entries if one.name == dataset and condition(one)), None)

    found = find_entry(await world.until(NODE_CACHES, node, lambda raw: find_entry(raw) is not None))
    assert found is not None
    return found


async def test_what_exceeds_the_class_is_cut_and_told(world: World, classes: Classes) -> None:
    sidecar = await world.add_node()
    name = await classes.make("tenants", priority={"max": 10}, maxReplicas=1, bandwidth={"max": "100Mi"})
    warm = {"priority": 1000, "bandwidthLimit": "0"}
    await world.add_dataset(className=name, warm=warm, cache={"replicas": "all", "pinned": True})
    cut = await world.until_dataset(lambda one: bool(limits(one)))
    assert (cut.status.class_name, limits(cut).count(f"DatasetClass {name} allows")) == (name, 4)
    entry = await until_entry(world, sidecar.node, lambda one: True)
    assert (entry.priority, entry.pinned, entry.bytes_per_second) == (10, False, 100 << 20)
    await world.until_events(Reason.LIMITED_BY_CLASS)


async def test_what_is_left_out_is_as_the_default_class_says(world: World, classes: Classes) -> None:
    sidecar = await world.add_node()
    await classes.make("other", priority={"max": 1, "default": 1})
    name = await classes.make("tenants", default=True, priority={"max": 9, "default": 5}, warm={"default": "Manual"})
    await world.add_dataset()
    # The operator may see the Dataset before the class.
    await world.until_dataset(lambda one: one.status.class_name == name)
    await until_entry(world, sidecar.node, lambda one: (one.priority, one.eager) == (5, False))


async def test_a_source_that_is_not_allowed_reaches_no_node(world: World, classes: Classes) -> None:
    sidecar = await world.add_node()
    name = await classes.make("tenants", endpoints=["https://minio.storage:9000"], hostFolders=[])
    await world.add_dataset(className=name)
    await world.add_dataset("folder", className=name, source={"uri": "file:///etc"})
    good = {"uri": "s3://bucket/", "endpoint": "https://minio.storage:9000"}
    await world.add_dataset("good", className=name, source=good)
    for one in ("digits", "folder"):
        refused = await world.until_dataset(lambda d: is_accepted(d, reason=Reason.NOT_ALLOWED_BY_CLASS), one)
        assert refused.status.phase is Phase.FAILED
    await until_entry(world, sidecar.node, lambda one: True, "good")
    raw = await world.kube.get(NODE_CACHES, sidecar.node)
    entries = NodeCache.model_validate(raw).spec.datasets
    assert [one.name for one in entries if one.namespace == world.namespace] == ["good"]


async def test_a_class_that_changes_counts_for_datasets_that_are_there(world: World, classes: Classes) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    name = await classes.make("tenants", priority={"max": 100})
    await world.add_dataset(className=name, warm={"priority": 50})
    await world.until_dataset(lambda one: one.status.phase is Phase.READY)
    await until_entry(world, sidecar.node, lambda one: one.priority == 50)
    await classes.change("tenants", priority={"max": 7})
    await until_entry(world, sidecar.node, lambda one: one.priority == 7)
    await classes.change("tenants", endpoints=[])
    closed = await until_entry(world, sidecar.node, lambda one: bool(one.refused))
    assert (closed.version, closed.eager, closed.priority) == (sidecar.version, False, 0)
    await classes.change("tenants", endpoints=None)
    await until_entry(world, sidecar.node, lambda one: not one.refused and one.eager)
    await world.until_dataset(lambda one: one.status.phase is Phase.READY and is_accepted(one))


async def test_a_class_that_is_deleted_is_waited_for_and_no_bytes_go(world: World, classes: Classes) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    name = await classes.make("tenants", priority={"max": 100}, allowPinning=True)
    await world.add_dataset(className=name, warm={"priority": 50}, cache={"pinned": True})
    await world.until_dataset(lambda one: one.status.phase is Phase.READY)
    await classes.delete("tenants")
    waiting = await world.until_dataset(lambda one: is_accepted(one, reason=Reason.CLASS_NOT_FOUND))
    assert (waiting.status.phase, waiting.status.version) == (Phase.PENDING, sidecar.version)
    calm = await until_entry(world, sidecar.node, lambda one: not one.pinned)
    assert (calm.version, calm.priority, calm.refused) == (sidecar.version, 0, "")
    await classes.make("tenants", priority={"max": 100}, allowPinning=True)
    await world.until_dataset(lambda one: one.status.phase is Phase.READY and is_accepted(one))
    await until_entry(world, sidecar.node, lambda one: one.pinned and one.priority == 50)


async def test_a_dataset_whose_class_is_missing_can_be_deleted(world: World) -> None:
    await world.add_node()
    await world.add_dataset(className="nowhere")
    await world.until_dataset(lambda one: is_accepted(one, reason=Reason.CLASS_NOT_FOUND))
    await world.kube.delete(DATASETS, "digits", world.namespace)
    await world.until_gone(DATASETS, "digits")


async def add_to(world: World, namespace: str, name: str, class_name: str, replicas: int | str = 1) -> None:
    """Create a Dataset of another namespace, for this test's nodes. Its listing has BYTES."""
    cache = {"nodeSelector": {"test": world.label}, "replicas": replicas}
    spec = {"className": class_name, "source": {"uri": "s3://bucket/"}, "cache": cache}
    await world.kube.create(DATASETS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def over_quota(raw: dict[str, Any]) -> str:
    found = find(Dataset.model_validate(raw).status.conditions, ConditionType.WARM)
    return found.message if found and found.reason == Reason.NAMESPACE_QUOTA_EXCEEDED else ""


async def until_of(world: World, namespace: str, name: str, condition: Any) -> dict[str, Any]:
    """Return a Dataset of another namespace when the condition holds."""

    async def look() -> dict[str, Any] | None:
        raw = await world.kube.get(DATASETS, name, namespace)
        return raw if condition(raw) else None

    return await eventually_async(look, SECONDS)


async def holders(world: World, namespace: str, name: str) -> list[str]:
    """Return the planned nodes of a Dataset."""
    caches = [NodeCache.model_validate(await world.kube.get(NODE_CACHES, one.node)) for one in world.sidecars]
    return [
        cache.key
        for cache in caches
        for entry in cache.spec.datasets
        if (entry.namespace, entry.name) == (namespace, name) and entry.eager
    ]


async def until_held_by_one(world: World, namespace: str, name: str) -> None:
    """Wait until a Dataset has one planned node. Plans and statuses are written independently."""

    async def look() -> bool | None:
        return len(await holders(world, namespace, name)) == 1 or None

    await eventually_async(look, SECONDS)


async def test_each_tenant_has_its_own_quota_over_nodes(world: World, classes: Classes) -> None:
    for sidecar in [await world.add_node(), await world.add_node()]:
        sidecar.share = 1.0
    name = await classes.make("tenants", quota={"perNamespace": str(3 * BYTES), "perNode": str(2 * BYTES)})
    tenants = [f"{world.namespace}-{one}" for one in ("a", "b")]
    for tenant in tenants:
        await world.kube.create(NAMESPACES, {"metadata": {"name": tenant}})
        await add_to(world, tenant, "first", name, "all")
        await until_of(world, tenant, "first", lambda raw: raw.get("status", {}).get("warmNodes") == "2/2")
        await add_to(world, tenant, "second", name, "all")
        waiting = await until_of(world, tenant, "second", over_quota)
        assert f"namespace {tenant}" in over_quota(waiting)
        assert "first" in over_quota(waiting)
        await until_held_by_one(world, tenant, "second")
    await world.kube.delete(DATASETS, "first", tenants[0])
    await until_of(world, tenants[0], "second", lambda raw: raw["status"]["warmNodes"] == "2/2")
    assert len(await holders(world, tenants[1], "second")) == 1


async def test_a_quota_that_shrinks_takes_no_mounted_bytes_away(world: World, classes: Classes) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    name = await classes.make("tenants", quota={"perNode": str(BYTES)})
    await world.add_dataset(className=name)
    await world.until_dataset(lambda one: one.status.phase is Phase.READY)
    sidecar.mount(f"{world.namespace}/digits", "trainer")
    await sidecar.report()
    await world.until_dataset(mount_is_known)
    await classes.change("tenants", quota={"perNode": "1Ki"})
    starved = await until_entry(world, sidecar.node, lambda one: one.quota_bytes == 0)
    assert (starved.version, starved.eager) == (sidecar.version, False)
    sidecar.mounts.clear()
    await sidecar.report()

    def gone(raw: dict[str, Any]) -> bool:
        entries = NodeCache.model_validate(raw).spec.datasets
        return all(one.name != "digits" or one.quota_bytes != 0 for one in entries)

    await world.until(NODE_CACHES, sidecar.node, gone)


def test_the_example_and_the_class_of_the_chart_are_taken(apiserver: ApiServer, tmp_path: Path) -> None:
    chart = tmp_path / "class.yaml"
    chart.write_text(yaml.safe_dump_all(of_kind(render({}), "DatasetClass")))
    example = Path(__file__).parents[3] / "examples" / "datasetclass.yaml"
    made = apiserver.kubectl("apply", "--dry-run=server", f"--filename={chart}", f"--filename={example}")
    assert made.count("created") == 3


async def test_kubectl_shows_what_a_class_allows(apiserver: ApiServer, classes: Classes) -> None:
    quota = {"perNamespace": "2Ti", "perNode": "500Gi"}
    name = await classes.make("tenants", default=True, priority={"max": 7}, maxReplicas=3, quota=quota)
    head, row = apiserver.kubectl("get", "datasetclass", name).splitlines()
    assert head.split()[:8] == ["NAME", "DEFAULT", "PRIORITY", "PINNING", "REPLICAS", "QUOTA", "NODE", "QUOTA"]
    assert row.split()[:7] == [name, "true", "7", "false", "3", "2Ti", "500Gi"]

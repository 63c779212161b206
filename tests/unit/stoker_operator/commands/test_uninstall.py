"""Uninstallation, against the in-memory API server."""

from typing import Any

import pytest

from stoker_api import names
from stoker_kube.resources import (
    DATASETS,
    DEPLOYMENTS,
    LEASES,
    NODE_CACHES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
)
from stoker_operator.commands.uninstall import Installation, Uninstall
from stoker_operator.core.plans.credentials_rbac import NamedCredentials, role, role_bindings
from stoker_operator.core.plans.volumes import persistent_volume, persistent_volume_claim
from stoker_operator.errors import UninstallError
from tests.fakes.kube import FakeKube
from tests.unit.stoker_operator.builders import listed, make_dataset, mount, report

DATASET = listed(make_dataset())


class World:
    """An installation with one Dataset on one node. Each wait calls ``on_wait``."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.told: list[str] = []
        self.waits = 0
        self.sidecars_work = True

    async def install(self, mounts: tuple[Any, ...] = ()) -> None:
        await self.kube.create(
            DEPLOYMENTS, {"metadata": {"name": "stoker-operator", "namespace": "stoker"}, "spec": {"replicas": 2}}
        )
        for kind, name in ((LEASES, "stoker-operator"), (SECRETS, "stoker-webhook-tls"), (SECRETS, "stoker-peer-tls")):
            await self.kube.create(kind, {"metadata": {"name": name, "namespace": "stoker"}})
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await self.kube.create(NODES, {"metadata": {"name": "a"}, "status": ready})
        await self.kube.create(NODE_CACHES, {"metadata": {"name": "a"}, "spec": {"datasets": []}})
        status = {"datasets": [report(DATASET).wire()], "mounts": list(mounts)}
        await self.kube.patch(NODE_CACHES, "a", {"status": status}, subresource="status")
        meta = {"name": "imagenet", "namespace": "vision", "finalizers": [names.FINALIZER, "other/finalizer"]}
        await self.kube.create(DATASETS, {"metadata": meta, "spec": DATASET.spec.wire()})
        await self.kube.create(PERSISTENT_VOLUMES, persistent_volume(DATASET))
        await self.kube.create(PERSISTENT_VOLUME_CLAIMS, persistent_volume_claim(DATASET))
        named = NamedCredentials("vision", "Secret", "keys")
        for kind, ours in ((ROLES, role(named)), (ROLE_BINDINGS, role_bindings(named, ["a"], "stoker-nodes")[0])):
            await self.kube.create(kind, ours)
            ours["metadata"] |= {"name": names.CREDENTIALS_ROLE}  # like an object of an earlier version
            await self.kube.create(kind, ours)

    async def add_held_pod(self) -> None:
        meta = {"name": "held", "namespace": "vision", "labels": {names.LABEL_MANAGED: "true"}}
        gates = [{"name": "other"}, {"name": names.GATE_WARM}]
        await self.kube.create(PODS, {"metadata": meta, "spec": {"schedulingGates": gates, "containers": []}})

    async def on_wait(self, _seconds: float) -> None:
        """Count one second of waiting. The sidecar has cleaned its disk by then."""
        self.waits += 1
        if self.sidecars_work:
            await self.kube.patch(NODE_CACHES, "a", {"status": {"datasets": []}}, subresource="status")

    async def uninstall(self, *, ignore_pods: bool = False, ignore_nodes: bool = False) -> None:
        what = Installation("stoker", 3.0, ignore_pods, ignore_nodes)
        await Uninstall(self.kube, what, self.told.append, self.on_wait).run()

    async def replicas(self) -> int:
        return int((await self.kube.get(DEPLOYMENTS, "stoker-operator", "stoker"))["spec"]["replicas"])


@pytest.fixture
async def world() -> World:
    made = World()
    await made.install()
    return made


async def test_nothing_that_the_operator_made_is_left(world: World) -> None:
    await world.uninstall()
    for kind in (NODE_CACHES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, ROLES, ROLE_BINDINGS, LEASES, SECRETS):
        assert world.kube.objects(kind) == [], kind.kind


async def test_the_operator_is_stopped_first(world: World) -> None:
    await world.uninstall()
    assert (await world.kube.get(DEPLOYMENTS, "stoker-operator", "stoker"))["spec"]["replicas"] == 0
    assert world.told.index("the operator has stopped") < world.told.index("1 nodes are clean")


async def test_datasets_stay_without_our_finalizer_and_with_others(world: World) -> None:
    await world.uninstall()
    assert (await world.kube.get(DATASETS, "imagenet", "vision"))["metadata"]["finalizers"] == ["other/finalizer"]


async def test_it_waits_until_the_disks_are_clean(world: World) -> None:
    await world.uninstall()
    assert world.waits == 1
    assert "waiting: nodes a clean their disks" in world.told


async def test_held_pods_are_let_go_and_other_gates_stay(world: World) -> None:
    await world.add_held_pod()
    await world.uninstall()
    assert (await world.kube.get(PODS, "held", "vision"))["spec"]["schedulingGates"] == [{"name": "other"}]


async def test_pods_that_use_a_dataset_stop_it_with_their_names() -> None:
    world = World()
    await world.install(mounts=(mount(DATASET),))
    with pytest.raises(UninstallError, match="pods still use Datasets: 1 pod: vision/trainer on a; delete them"):
        await world.uninstall()
    assert len(world.kube.objects(PERSISTENT_VOLUMES)) == 1
    await world.uninstall(ignore_pods=True)
    assert world.kube.objects(PERSISTENT_VOLUMES) == []


async def test_it_can_be_repeated(world: World) -> None:
    await world.uninstall()
    await world.uninstall()
    assert world.told[-1].startswith("done")


async def test_a_volume_of_somebody_else_is_left_alone(world: World) -> None:
    await world.kube.create(PERSISTENT_VOLUMES, {"metadata": {"name": "theirs"}})
    await world.uninstall()
    assert [item["metadata"]["name"] for item in world.kube.objects(PERSISTENT_VOLUMES)] == ["theirs"]


async def test_it_waits_until_the_volumes_are_gone(world: World) -> None:
    protected = persistent_volume(make_dataset("other"))
    protected["metadata"]["finalizers"] = ["kubernetes.io/pv-protection"]
    await world.kube.create(PERSISTENT_VOLUMES, protected)
    with pytest.raises(UninstallError, match="volumes are still there: stoker-vision-other"):
        await world.uninstall()


async def test_a_node_that_does_not_clean_its_disk_leaves_the_operator_running(world: World) -> None:
    world.sidecars_work = False
    with pytest.raises(
        UninstallError, match="nodes a clean their disks; look at their sidecars, or use --ignore-nodes"
    ):
        await world.uninstall()
    assert await world.replicas() == 2
    assert len(world.kube.objects(PERSISTENT_VOLUMES)) == 1


async def test_such_a_node_can_be_left_as_it_is(world: World) -> None:
    world.sidecars_work = False
    await world.uninstall(ignore_nodes=True)
    assert await world.replicas() == 0
    assert any("nodes a clean their disks" in told and "continuing" in told for told in world.told)
    assert world.kube.objects(PERSISTENT_VOLUMES) == []


async def test_held_pods_without_our_label_are_let_go_too(world: World) -> None:
    gates = [{"name": names.GATE_WARM}]
    meta = {"name": "odd", "namespace": "vision"}
    await world.kube.create(PODS, {"metadata": meta, "spec": {"schedulingGates": gates, "containers": []}})
    await world.uninstall()
    assert (await world.kube.get(PODS, "odd", "vision"))["spec"].get("schedulingGates", []) == []

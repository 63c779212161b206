"""The life of a Dataset on a real API server, from creation to warm to deletion."""

import asyncio
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import Phase
from stoker_api.names import ConditionType, Reason
from stoker_api.node_caches.node_dataset_status import NodeError
from stoker_api.node_caches.node_storage import MountPhase
from stoker_kube.resources import (
    DATASETS,
    NODE_CACHES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from stoker_kube.watch import EventType, WatchEvent, watch
from stoker_operator.core.plans.credentials_rbac import NamedCredentials
from stoker_operator.core.plans.volumes import persistent_volume_name
from stoker_operator.core.views.conditions import find
from tests.fakes.sidecar import VERSION
from tests.integration.stoker_operator.conftest import SECONDS, World, mount_is_known
from tests.support.waiting import eventually, eventually_async


def phase_is(phase: Phase) -> Any:
    return lambda dataset: dataset.status.phase is phase


def condition(dataset: Dataset, kind: ConditionType) -> tuple[str, str, str]:
    found = find(dataset.status.conditions, kind)
    assert found is not None
    return found.status, found.reason, found.message


def is_blocked(dataset: Dataset) -> bool:
    found = find(dataset.status.conditions, ConditionType.DELETION_BLOCKED)
    return found is not None and found.status == "True"


async def test_a_dataset_waits_for_a_node_is_listed_warms_and_is_ready(world: World) -> None:
    await world.add_dataset()
    pending = await world.until_dataset(phase_is(Phase.PENDING))
    assert condition(pending, ConditionType.LISTED)[1] == Reason.NO_NODES

    sidecar = await world.add_node()
    sidecar.answers = False
    listing = await world.until_dataset(phase_is(Phase.LISTING))
    assert condition(listing, ConditionType.LISTED)[2] == f"{sidecar.node} is listing s3://bucket/"

    sidecar.answers, sidecar.share = True, 0.25
    await sidecar.report()
    warming = await world.until_dataset(lambda d: d.status.cached_percent == "25%")
    assert (warming.status.phase, warming.status.warm_nodes, warming.status.files) == (Phase.WARMING, "0/1", 1797)

    sidecar.share = 1.0
    await sidecar.report()
    ready = await world.until_dataset(phase_is(Phase.READY))
    assert (ready.status.version, ready.status.warm_nodes, ready.status.cached_percent) == (VERSION, "1/1", "100%")
    assert condition(ready, ConditionType.READY)[0] == "True"
    await world.until_events(Reason.ACCEPTED, Reason.LISTED, Reason.WARMING, Reason.WARM)


async def test_a_ready_dataset_is_not_written_again(world: World) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    await world.add_dataset()
    before = await world.until_dataset(phase_is(Phase.READY))
    # Another Dataset causes several full passes of the operator.
    await world.add_dataset("other")
    await world.until_dataset(phase_is(Phase.READY), "other")
    assert await world.dataset() == before  # with its resourceVersion: the written state is visible


async def test_a_claim_of_the_datasets_name_is_made_and_a_foreign_one_is_left_alone(world: World) -> None:
    foreign = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "taken", "namespace": world.namespace}, "spec": foreign}
    await world.kube.create(PERSISTENT_VOLUME_CLAIMS, body)
    await world.add_dataset("taken")
    await world.add_dataset("free")
    await world.until(PERSISTENT_VOLUMES, persistent_volume_name(world.namespace, "free"), bool)
    claim = await world.until(PERSISTENT_VOLUME_CLAIMS, "free", bool)
    assert claim["spec"]["volumeName"] == persistent_volume_name(world.namespace, "free")
    noted = await world.until_dataset(
        lambda d: any("is not Stoker's" in c.message for c in d.status.conditions), "taken"
    )
    assert condition(noted, ConditionType.ACCEPTED)[0] == "True"
    kept = await world.kube.get(PERSISTENT_VOLUME_CLAIMS, "taken", world.namespace)
    assert kept["spec"]["accessModes"] == ["ReadWriteOnce"]


class Seen:
    """The nodes in watched objects, with the resourceVersions at which each was added and removed.

    Versions are comparable, because all objects are in one etcd.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.synced = False
        self.first: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        self._now: dict[str, set[str]] = {}  # by object

    async def readers(self) -> None:
        """Follow the subjects of RoleBindings, until cancelled."""
        async for event in watch(self._world.kube, ROLE_BINDINGS, namespace=self._world.namespace):
            deleted = event.type is EventType.DELETED
            self._take(event, set() if deleted else {one["name"] for one in event.object.get("subjects") or ()})

    async def holders(self) -> None:
        """Follow which NodeCaches have a Dataset of the test's namespace, until cancelled."""
        async for event in watch(self._world.kube, NODE_CACHES):
            entries = event.object.get("spec", {}).get("datasets") or ()
            has = any(one["namespace"] == self._world.namespace for one in entries)
            self._take(event, {event.object["metadata"]["name"]} if has else set())

    @property
    def now(self) -> set[str]:
        """The nodes that the objects have at this moment."""
        return set[str]().union(*self._now.values())

    def _take(self, event: WatchEvent, nodes: set[str]) -> None:
        if event.type is EventType.SYNCED:
            self.synced = True
            return
        version, before = int(event.object["metadata"]["resourceVersion"]), self.now
        self._now[event.object["metadata"]["name"]] = nodes
        for node in self.now - before:
            self.first.setdefault(node, version)
        self.gone |= dict.fromkeys(before - self.now, version)


async def test_the_nodes_of_a_dataset_and_no_others_may_read_the_named_secret(world: World) -> None:
    nodes = {(await world.add_node()).node for _ in range(3)}
    stranger = (await world.add_node("another")).node
    readers, holders = Seen(world), Seen(world)
    world.tasks += [asyncio.create_task(readers.readers()), asyncio.create_task(holders.holders())]
    await eventually(lambda: readers.synced and holders.synced, SECONDS)
    named = NamedCredentials(world.namespace, "Secret", "keys")
    source = {"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}}
    await world.add_dataset(source=source, cache={"replicas": 2})
    role = await world.until(ROLES, named.role, lambda _: True)
    assert role["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["keys"]}]
    await world.until_dataset(phase_is(Phase.WARMING))

    # Two replicas, and perhaps a third node that listed it before: a listing node keeps its entry, and reads the source
    # too.
    await eventually(lambda: len(holders.now) >= 2 and readers.now == holders.now, SECONDS)
    owners = await accounts_of(world, {*nodes, stranger})
    assert owners == {"Node"}
    await world.kube.delete(DATASETS, "digits", world.namespace)
    await world.until_gone(ROLES, named.role)
    await eventually(lambda: not holders.now and not readers.now, SECONDS)
    # A node may get its right before its plan. If the plan changes in between, it never gets the plan.
    assert holders.first.keys() <= readers.first.keys() <= nodes
    assert all(readers.first[node] < holders.first[node] for node in holders.first)
    assert all(holders.gone[node] < readers.gone[node] for node in holders.gone)


async def accounts_of(world: World, nodes: set[str]) -> set[str]:
    """Wait until exactly these nodes have accounts. Return the kinds of the owners."""
    home = names.node_accounts_namespace(world.namespace)

    async def look() -> list[dict[str, Any]] | None:
        accounts = (await world.kube.list(SERVICE_ACCOUNTS, home)).items
        return list(accounts) if {one["metadata"]["name"] for one in accounts} == nodes else None

    found = await eventually_async(look, SECONDS)
    return {one["metadata"]["ownerReferences"][0]["kind"] for one in found}


async def test_deletion_waits_for_pods_then_for_disks_then_leaves_nothing(world: World) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    await world.add_dataset()
    ready = await world.until_dataset(phase_is(Phase.READY))
    sidecar.mount(f"{world.namespace}/digits", "trainer")
    await sidecar.report()
    await world.until_dataset(mount_is_known)
    await world.until(PERSISTENT_VOLUME_CLAIMS, "digits", bool)  # made after the volume

    await world.kube.delete(DATASETS, "digits", world.namespace)
    held = await world.until_dataset(is_blocked)
    assert held.status.phase is Phase.TERMINATING
    assert f"{world.namespace}/trainer on {sidecar.node}" in condition(held, ConditionType.DELETION_BLOCKED)[2]

    sidecar.mounts.clear()
    await sidecar.report()
    await world.until_gone(DATASETS, "digits")
    assert sidecar.cleaned == [ready.metadata.uid]
    cache = await world.kube.get(NODE_CACHES, sidecar.node)
    assert cache["spec"].get("datasets", []) == []
    # The controller that removes the protection finalizers does not run here.
    for kind, name in (
        (PERSISTENT_VOLUMES, persistent_volume_name(world.namespace, "digits")),
        (PERSISTENT_VOLUME_CLAIMS, "digits"),
    ):
        left = await world.until(kind, name, bool)
        assert left["metadata"]["deletionTimestamp"]


async def test_a_stranger_that_names_a_dataset_neither_warms_it_nor_keeps_it_from_being_deleted(world: World) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    await world.add_dataset(cache={"replicas": 0}, warm={"policy": "OnDemand"})
    await world.until_dataset(lambda d: d.status.version == VERSION)
    await world.add_raw_mount("stranger", sidecar.node, f"{world.namespace}/digits")
    sidecar.mount(f"{world.namespace}/digits", "waiting", phase=MountPhase.PENDING, pod_namespace="stranger")
    await sidecar.report()
    # Another Dataset causes several full passes of the operator.
    await world.add_dataset("other")
    await world.until_dataset(phase_is(Phase.READY), "other")
    cache = await world.kube.get(NODE_CACHES, sidecar.node)
    assert not any(entry.get("eager") for entry in cache["spec"]["datasets"] if entry["name"] == "digits")
    await world.kube.delete(DATASETS, "digits", world.namespace)
    await world.until_gone(DATASETS, "digits")


async def test_a_listing_that_fails_for_good_is_told_with_its_sentence(world: World) -> None:
    sidecar = await world.add_node()
    sidecar.error = NodeError(reason=Reason.BUCKET_NOT_FOUND, message="bucket nothere does not exist", temporary=False)
    await world.add_dataset()
    failed = await world.until_dataset(phase_is(Phase.FAILED))
    assert condition(failed, ConditionType.LISTED) == (
        "False",
        Reason.BUCKET_NOT_FOUND,
        "bucket nothere does not exist",
    )


async def test_a_new_version_replaces_the_old_one_while_a_mount_keeps_it(world: World) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    await world.add_dataset()
    await world.until_dataset(phase_is(Phase.READY))
    sidecar.mount(f"{world.namespace}/digits", "trainer")
    sidecar.version = "b2" * 32
    await sidecar.report()
    await world.until_dataset(mount_is_known)
    refresh = {"metadata": {"annotations": {names.ANNOTATION_REFRESH_REQUESTED: "2026-11-21T10:00:00Z"}}}
    await world.kube.patch(DATASETS, "digits", refresh, world.namespace)
    newer = await world.until_dataset(lambda d: d.status.version == "b2" * 32)
    assert newer.status.versions_in_use == (VERSION,)
    cache = await world.until(NODE_CACHES, sidecar.node, lambda raw: raw["spec"]["datasets"][0]["version"] == "b2" * 32)
    assert cache["spec"]["datasets"][0]["retain"] == [VERSION]


async def test_a_node_that_comes_back_under_its_name_keeps_its_cache(world: World) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    for name in ("digits", "leaving"):
        await world.add_dataset(name)
        await world.until_dataset(phase_is(Phase.READY), name)
    leaving = (await world.dataset("leaving")).metadata.uid
    before = (await world.kube.get(NODE_CACHES, sidecar.node))["metadata"]["uid"]
    await sidecar.register_again(test=world.label)
    await world.until(
        NODE_CACHES,
        sidecar.node,
        lambda raw: raw["metadata"]["uid"] != before and not raw["spec"].get("keepUnlisted") and "status" in raw,
    )
    await world.until_dataset(phase_is(Phase.READY))
    assert sidecar.cleaned == []
    await world.kube.delete(DATASETS, "leaving", world.namespace)
    await world.until_gone(DATASETS, "leaving")
    # The operator may learn this late that the Node was deleted, and a deletion waits for no missing node.
    await eventually(lambda: sidecar.cleaned == [leaving], SECONDS)


async def test_a_pinned_version_stays_when_another_secret_is_named(world: World) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    await world.add_dataset(source={"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}})
    before = await world.until_dataset(phase_is(Phase.READY))
    sidecar.version = "b2" * 32
    source = {"credentials": {"secretRef": {"name": "other"}}}
    await world.kube.patch(DATASETS, "digits", {"spec": {"source": source}}, world.namespace)
    after = await world.until_dataset(lambda d: d.status.observed_generation > before.status.observed_generation)
    cache = await world.until(
        NODE_CACHES,
        sidecar.node,
        lambda raw: raw["spec"]["datasets"][0]["source"]["credentials"] == source["credentials"],
    )
    assert (after.status.version, after.status.listing_id) == (VERSION, before.status.listing_id)
    assert cache["spec"]["datasets"][0]["version"] == VERSION


async def test_characters_beyond_the_basic_plane_stop_no_dataset(world: World) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    await world.add_dataset("odd", source={"uri": "s3://bucket/\U0001f600/", "include": ["\U0001f600*"]})
    await world.add_dataset("plain")
    for name in ("odd", "plain"):
        await world.until_dataset(phase_is(Phase.READY), name)
    odd = await world.dataset("odd")
    assert not odd.metadata.annotations

"""Objects that a real API server refuses: they get a message, and objects of another namespace are unaffected."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.names import ConditionType
from stoker_kube.api import Object
from stoker_kube.errors import Forbidden, Invalid
from stoker_kube.resources import DATASETS, NODE_CACHES, PERSISTENT_VOLUME_CLAIMS, ROLES
from stoker_operator.core.views.conditions import find
from tests.integration.stoker_operator.conftest import SECONDS, World, mount_is_known
from tests.support.kinds import NAMESPACES, POLICIES, POLICY_BINDINGS, RESOURCE_QUOTAS
from tests.support.waiting import eventually_async

CREDENTIALS = {"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}}


async def until(world: World, namespace: str, name: str, what: Any) -> Object:
    """Return a Dataset of any namespace when ``what(dataset)`` holds."""

    async def look() -> Object | None:
        raw = await world.kube.get(DATASETS, name, namespace)
        return raw if what(Dataset.model_validate(raw)) else None

    return await eventually_async(look, SECONDS)


def message_of(dataset: Dataset) -> str:
    """Return the failed writes for it."""
    found = find(dataset.status.conditions, ConditionType.RECONCILED)
    return found.message if found is not None and found.status == "False" else ""


@pytest.fixture
async def odd_namespace(world: World) -> str:
    name = f"odd-{uuid4().hex[:8]}"
    await world.kube.create(NAMESPACES, {"metadata": {"name": name}})
    return name


async def add_odd(world: World, namespace: str, name: str, secret: str = "keys") -> None:
    source = CREDENTIALS | {"credentials": {"secretRef": {"name": secret}}}
    spec = {"source": source, "cache": {"nodeSelector": {"test": world.label}}}
    await world.kube.create(DATASETS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


async def canary_is_warm(world: World) -> None:
    """Add a Dataset next to the odd ones. Wait until it is warm."""
    await world.add_dataset("canary")
    await world.until_dataset(lambda one: one.status.phase == "Ready", "canary")


async def test_a_namespace_without_room_for_claims(world: World, odd_namespace: str) -> None:
    (await world.add_node()).share = 1.0
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"persistentvolumeclaims": "0"}}}
    await world.kube.create(RESOURCE_QUOTAS, quota, odd_namespace)
    # No controller runs here to compute the status that the API server's decision uses.
    status = {"status": {"hard": {"persistentvolumeclaims": "0"}, "used": {"persistentvolumeclaims": "0"}}}
    await world.kube.patch(RESOURCE_QUOTAS, "none", status, odd_namespace, subresource="status")
    await add_odd(world, odd_namespace, "odd")
    await canary_is_warm(world)
    await until(world, odd_namespace, "odd", lambda one: "exceeded quota" in message_of(one))
    await until(world, odd_namespace, "odd", lambda one: one.status.phase == "Ready")
    await world.until(PERSISTENT_VOLUME_CLAIMS, "canary", lambda _: True)
    await world.kube.delete(DATASETS, "canary", world.namespace)
    await world.until_gone(DATASETS, "canary")


async def test_a_namespace_that_is_deleted_with_two_datasets_of_different_secrets(
    world: World, odd_namespace: str
) -> None:
    sidecar = await world.add_node()
    sidecar.share = 1.0
    for name in ("read", "unread"):
        await add_odd(world, odd_namespace, name, f"keys-of-{name}")
        await until(world, odd_namespace, name, lambda one: one.status.phase == "Ready")
    sidecar.mount(f"{odd_namespace}/read", "reader")
    await sidecar.report()
    await until(world, odd_namespace, "read", mount_is_known)
    # The namespace controller does this in a real cluster.
    await world.kube.delete(NAMESPACES, odd_namespace)
    for role in (await world.kube.list(ROLES, odd_namespace)).items:
        await world.kube.delete(ROLES, role["metadata"]["name"], odd_namespace)
    for name in ("read", "unread"):
        await world.kube.delete(DATASETS, name, odd_namespace)
    await until_gone(world, odd_namespace, "unread")
    await canary_is_warm(world)
    sidecar.mounts.clear()
    await sidecar.report()
    await until_gone(world, odd_namespace, "read")


async def until_gone(world: World, namespace: str, name: str) -> None:
    """Wait until a namespace has no such Dataset."""

    async def look() -> bool | None:
        left = {one["metadata"]["name"] for one in (await world.kube.list(DATASETS, namespace)).items}
        return name not in left or None

    await eventually_async(look, SECONDS)


@pytest.fixture
async def policy(world: World) -> AsyncIterator[None]:
    """Let the API server refuse every NodeCache with an entry whose name begins with "odd"."""
    name = f"no-odd-{uuid4().hex[:8]}"
    rules = [{"apiGroups": [names.GROUP], "apiVersions": ["*"], "operations": ["*"], "resources": ["nodecaches"]}]
    expression = "!has(object.spec) || !object.spec.datasets.exists(one, one.name.startsWith('odd'))"
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": expression, "message": "a policy says no"}],
    }
    await world.kube.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    await world.kube.create(POLICY_BINDINGS, {"metadata": {"name": name}, "spec": binding})
    entry = {"namespace": "a", "name": "odd", "uid": "u", "source": {"uri": "s3://bucket/"}}

    async def is_in_force() -> bool | None:
        try:
            await world.kube.create(NODE_CACHES, {"metadata": {"name": name}, "spec": {"datasets": [entry]}})
        except (Forbidden, Invalid):
            return True
        await world.kube.delete(NODE_CACHES, name)
        return None

    await eventually_async(is_in_force, SECONDS)
    yield
    await world.kube.delete(POLICY_BINDINGS, name)
    await world.kube.delete(POLICIES, name)


@pytest.mark.usefixtures("policy")
async def test_a_node_cache_that_is_refused_is_written_without_the_dataset_that_spoils_it(world: World) -> None:
    (await world.add_node()).share = 1.0
    await world.add_dataset("odd")
    await world.until_dataset(lambda one: "a policy says no" in message_of(one), "odd")
    await canary_is_warm(world)
    cache = await world.kube.get(NODE_CACHES, world.sidecars[0].node)
    assert "odd" not in {entry["name"] for entry in cache["spec"]["datasets"]}

"""Rights follow the plans of the nodes, regardless of existing objects."""

import asyncio
from typing import Any

import pytest

from stoker_api import names
from stoker_kube.api import Object
from stoker_kube.errors import Forbidden
from stoker_kube.resources import DATASETS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from stoker_operator.core.plans.credentials_rbac import NamedCredentials
from stoker_operator.mirror.informers import trim_grant
from stoker_operator.reconcilers.credential_rights import AT_ONCE
from tests.unit.stoker_operator.builders import sidecar_pod
from tests.unit.stoker_operator.world import World

KEYS = NamedCredentials("vision", "Secret", "keys")
SOURCE = {"uri": "s3://bucket/", "credentials": {"secretRef": {"name": "keys"}}}


def subjects(world: World) -> list[str]:
    """Return the accounts with any read access."""
    return sorted(one["name"] for binding in world.kube.objects(ROLE_BINDINGS) for one in binding["subjects"])


async def tell(world: World, kind: Any, body: Object) -> None:
    """Create an object, and send it to the mirror like a watch event."""
    raw = await world.kube.create(kind, body)
    table = world.state.roles if kind is ROLES else world.state.role_bindings
    table.put(f"{raw['metadata']['namespace']}/{raw['metadata']['name']}", trim_grant(raw))


def old_grant(kind: str) -> Object:
    """Make the binding of an earlier version, which covers all nodes."""
    body = {"kind": kind, "metadata": {"name": names.CREDENTIALS_ROLE, "namespace": "vision"}}
    return body | ({"rules": []} if kind == "Role" else {"roleRef": {}, "subjects": [{"name": "stoker-sidecar"}]})


async def test_the_nodes_of_a_dataset_may_read_its_secret_and_others_may_not(world: World) -> None:
    world.add_node("b")
    await world.start(source=SOURCE, cache={"replicas": 1}, passes=3)
    [holder] = subjects(world)
    entries = {name: [one.name for one in (await world.cache(name)).spec.datasets] for name in ("a", "b")}
    assert [name for name, found in entries.items() if found] == [holder]
    assert [one["metadata"]["name"] for one in world.kube.objects(SERVICE_ACCOUNTS)] == ["a", "b"]


async def test_a_node_is_told_of_a_dataset_once_it_may_read_its_secret(world: World) -> None:
    await world.start(source=SOURCE, passes=2)
    assert (subjects(world), (await world.cache()).spec.datasets) == (["a"], ())
    await world.run()
    assert len((await world.cache()).spec.datasets) == 1


async def test_the_right_goes_with_the_dataset(world: World) -> None:
    await world.start(source=SOURCE, passes=2)
    world.state.datasets.put("vision/imagenet", None)
    await world.kube.delete(DATASETS, "imagenet", "vision")
    await world.step()
    await world.step()
    assert world.kube.objects(ROLES) == world.kube.objects(ROLE_BINDINGS) == []


async def test_the_bindings_of_many_nodes_are_written_side_by_side(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        world.add_node(f"n{number}")
    under_way, most = 0, 0
    applied = world.kube.apply

    async def slowly(kind: Any, body: Object, **rest: Any) -> Object:
        nonlocal under_way, most
        under_way += kind is ROLE_BINDINGS
        most = max(most, under_way)
        await asyncio.sleep(0)
        written = await applied(kind, body, **rest)
        under_way -= kind is ROLE_BINDINGS
        return written

    monkeypatch.setattr(world.kube, "apply", slowly)
    await world.start(source=SOURCE, cache={"replicas": "all"}, passes=3)
    assert (len(subjects(world)), most) == (101, AT_ONCE)


@pytest.mark.expected_logs("refused here")
async def test_a_binding_that_is_refused_keeps_no_other_from_being_written(world: World) -> None:
    for number in range(30):
        world.add_node(f"n{number}")
    world.kube.fail_next("patch", ROLE_BINDINGS, Forbidden(403, "Forbidden", "refused here"))
    await world.start(source=SOURCE, cache={"replicas": "all"}, passes=2)
    wanted = {KEYS.binding(node) for node in ("a", *(f"n{number}" for number in range(30)))}
    assert len(world.kube.objects(ROLE_BINDINGS)) == len(wanted) - 1


async def test_the_right_stays_as_long_as_the_plan_of_the_node(world: World) -> None:
    await world.start(source=SOURCE, passes=3)
    await world.kube.patch(DATASETS, "imagenet", {"spec": {"source": {"uri": "gs://bucket/"}}}, "vision")
    await world.run(2)
    assert subjects(world) == ["a"]


async def test_a_leader_that_did_not_make_it_takes_away_what_is_too_much(world: World) -> None:
    binding = {"metadata": {"name": f"{KEYS.role}-07", "namespace": "vision"}, "roleRef": {}, "subjects": []}
    await tell(world, ROLE_BINDINGS, binding)
    await tell(world, ROLES, {"metadata": {"name": KEYS.role, "namespace": "vision"}, "rules": []})
    await world.run()
    assert world.kube.objects(ROLES) == world.kube.objects(ROLE_BINDINGS) == []


async def test_roles_of_others_are_left_alone(world: World) -> None:
    await tell(world, ROLES, {"metadata": {"name": "theirs", "namespace": "vision"}, "rules": []})
    await world.run()
    assert len(world.kube.objects(ROLES)) == 1


async def test_a_binding_that_leads_elsewhere_is_made_anew(world: World) -> None:
    bound = {"roleRef": {"name": "cluster-admin"}, "subjects": []}
    await tell(world, ROLE_BINDINGS, {"metadata": {"name": KEYS.binding("a"), "namespace": "vision"}} | bound)
    before = world.kube.objects(ROLE_BINDINGS)[0]["metadata"]["uid"]
    await world.start(source=SOURCE, passes=2)
    [binding] = world.kube.objects(ROLE_BINDINGS)
    assert (binding["metadata"]["uid"] != before, binding["roleRef"]["name"]) == (True, KEYS.role)


async def test_the_common_right_of_earlier_versions_stays_until_the_last_old_sidecar_went(world: World) -> None:
    for kind, name in ((ROLES, "Role"), (ROLE_BINDINGS, "RoleBinding")):
        await tell(world, kind, old_grant(name))
    await world.run()
    assert len(world.kube.objects(ROLES)) == 1
    labels = dict(sidecar_pod().labels) | {names.LABEL_NODE_ACCOUNT: "true"}
    world.state.pods.put("stoker/s-a", sidecar_pod("a", labels=labels))
    await world.run()
    assert world.kube.objects(ROLES) == world.kube.objects(ROLE_BINDINGS) == []


async def test_a_pod_of_a_tenant_is_no_old_sidecar(world: World) -> None:
    await test_the_common_right_of_earlier_versions_stays_until_the_last_old_sidecar_went(world)
    await tell(world, ROLES, old_grant("Role"))
    world.state.pods.put("vision/x", sidecar_pod("", "vision", name="x"))
    await world.run()
    assert world.kube.objects(ROLES) == []


@pytest.mark.expected_logs("no accounts here")
async def test_a_node_without_account_is_given_the_dataset_all_the_same(world: World) -> None:
    world.kube.refuse("create", SERVICE_ACCOUNTS, Forbidden(403, "Forbidden", "no accounts here"))
    await world.start(source=SOURCE, passes=3)
    assert len((await world.cache()).spec.datasets) == 1

"""The rights of a sidecar and of its node's account, checked by a real API server with the chart's policies."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from stoker_api import names
from stoker_kube.api import Object
from stoker_kube.errors import Forbidden
from stoker_kube.resources import CLUSTER_ROLES, NODE_CACHES, SECRETS, SERVICE_ACCOUNTS
from stoker_sidecar.agent.kube.node_account import NodeAccount
from tests.support.apiserver import ApiServer
from tests.support.asking_as import ACCOUNTS, GOOD_RULE, OPERATOR, SIDECAR, Api, event, token_of_sidecar
from tests.support.chart import NAMESPACE
from tests.support.kinds import CLUSTER_ROLE_BINDINGS
from tests.support.waiting import all_sockets_closed, wait_until


@pytest.fixture(scope="module")
def node_caches(apiserver: ApiServer) -> list[str]:
    """Create two NodeCaches."""
    wanted = ["rights-a", "rights-b"]
    for name in wanted:
        apiserver.create(NODE_CACHES, name, spec={})
    return wanted


def test_a_sidecar_may_write_its_own_nodes_status(api: Api, node_caches: list[str]) -> None:
    assert api.patch_node_cache(node_caches[0], node=node_caches[0]) == (200, "")


def test_a_sidecar_may_not_write_its_neighbours_status(api: Api, node_caches: list[str]) -> None:
    status, sentence = api.patch_node_cache(node_caches[1], node=node_caches[0])
    assert status == 422
    assert f"the sidecar of node {node_caches[0]} may not write NodeCache {node_caches[1]}" in sentence


def test_a_sidecars_token_without_a_node_may_write_nothing(api: Api, node_caches: list[str]) -> None:
    assert api.patch_node_cache(node_caches[0], node="")[0] == 422


LONG = "n" * 253


def user_of(node: str) -> str:
    return f"system:serviceaccount:{ACCOUNTS}:{node}"


@pytest.fixture(scope="module")
def nodes(api: Api, apiserver: ApiServer) -> list[str]:
    """Make the accounts of some nodes, as the operator does."""
    made = ["node-1", "node-2", LONG]
    for name in made:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": ACCOUNTS}}
        assert api.may_create(OPERATOR, "serviceaccounts", account) == (201, "")
        apiserver.create(SERVICE_ACCOUNTS, name, ACCOUNTS)
    return made


def test_a_sidecar_gets_tokens_of_its_own_node(api: Api, nodes: list[str]) -> None:
    for node in nodes:
        assert api.token(SIDECAR, ACCOUNTS, node, node, expirationSeconds=3600) == (201, "")


def test_a_sidecar_gets_no_token_of_another_node(api: Api, nodes: list[str]) -> None:
    status, sentence = api.token(SIDECAR, ACCOUNTS, "node-2", node="node-1")
    assert (status, "sidecar of node node-1 may not ask for tokens of node-2" in sentence) == (422, True)
    assert api.token(SIDECAR, ACCOUNTS, "node-1", node="")[0] == 422
    assert api.token(SIDECAR, ACCOUNTS, LONG, node="n" * 252)[0] == 422


@pytest.mark.parametrize(
    "spec",
    [{"audiences": [names.WEB_IDENTITY_AUDIENCE]}, {"expirationSeconds": 86400}],
    ids=["for STS", "for a day"],
)
def test_a_nodes_token_is_for_an_hour_and_not_for_sts(api: Api, nodes: list[str], spec: dict[str, Any]) -> None:
    assert api.token(SIDECAR, ACCOUNTS, "node-1", "node-1", **spec)[0] == 422


def test_a_node_gets_no_token_of_a_node_not_even_its_own(api: Api, nodes: list[str]) -> None:
    for node in ("node-1", "node-2"):
        assert api.token(user_of("node-1"), ACCOUNTS, node, "node-1")[0] == 403


@pytest.mark.parametrize("account", ["stoker-operator", "stoker-sidecar"])
def test_a_sidecar_gets_no_token_of_the_pods_accounts(api: Api, account: str) -> None:
    assert api.token(SIDECAR, NAMESPACE, account, "node-1")[0] == 403


def test_a_node_reads_the_secrets_that_it_was_granted_and_no_others(
    api: Api, apiserver: ApiServer, namespace: str, nodes: list[str]
) -> None:
    for secret in ("keys", "other"):
        apiserver.create(SECRETS, secret, namespace)
    assert api.apply_role(namespace, GOOD_RULE)[0] == api.apply_binding(namespace, LONG)[0] == 201
    path = f"/api/v1/namespaces/{namespace}/secrets"
    wait_until(lambda: api.read(user_of(LONG), f"{path}/keys") == 200)  # the authorizer watches roles
    reads = {
        (user, secret): api.read(user, f"{path}/{secret}")
        for user in (user_of(LONG), user_of("node-1"), SIDECAR)
        for secret in ("keys", "other")
    }
    assert [key for key, status in reads.items() if status == 200] == [(user_of(LONG), "keys")]
    assert set(reads.values()) == {200, 403}


@pytest.fixture
def account(api: Api, apiserver: ApiServer, namespace: str, nodes: list[str]) -> str:
    """Make a service account whose tokens a node may request, as for a Dataset that names it."""
    apiserver.create(SERVICE_ACCOUNTS, "reader", namespace)
    rule = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["reader"], "verbs": ["create"]}
    assert api.apply_role(namespace, rule)[0] == 201
    assert api.apply_binding(namespace, "node-1")[0] == 201
    return namespace


def test_a_node_may_mint_tokens_for_sts_and_for_nobody_else(api: Api, account: str) -> None:
    user = user_of("node-1")
    good: dict[str, Any] = {"audiences": [names.WEB_IDENTITY_AUDIENCE], "expirationSeconds": 3600}
    wait_until(lambda: api.token(user, account, "reader", **good) == (201, ""))  # the authorizer watches roles
    assert api.token(user_of("node-2"), account, "reader", **good)[0] == 403
    wrong: list[dict[str, Any]] = [
        {},
        {"audiences": []},
        {"audiences": ["https://kubernetes.default.svc"]},
        {"audiences": [names.WEB_IDENTITY_AUDIENCE, "https://kubernetes.default.svc"]},
        {"audiences": [names.WEB_IDENTITY_AUDIENCE], "expirationSeconds": 86400},
    ]
    for spec in wrong:
        assert api.token(user, account, "reader", **spec)[0] == 422


def test_a_sidecar_may_tell_of_datasets_and_node_caches_and_of_nothing_else(api: Api, shared_namespace: str) -> None:
    assert api.may_create(SIDECAR, "events", event(shared_namespace, "Dataset")) == (201, "")
    assert api.may_create(SIDECAR, "events", event(shared_namespace, "Pod"))[0] == 422
    forged = event(shared_namespace, "Dataset") | {"source": {"component": "kubelet"}}
    assert api.may_create(SIDECAR, "events", forged)[0] == 422


def test_of_stokers_own_secrets_a_sidecar_reads_that_of_earlier_releases_alone(
    api: Api, apiserver: ApiServer, nodes: list[str]
) -> None:
    made = (names.EARLIER_PEER_SECRET, names.PEER_AUTHORITY_SECRET, "stoker-webhook-tls")
    for name in made:
        apiserver.create(SECRETS, name, NAMESPACE)
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    watch = f"{path}?fieldSelector=metadata.name%3D"
    assert (
        api.read(SIDECAR, f"{path}/{names.EARLIER_PEER_SECRET}")
        == api.read(SIDECAR, watch + names.EARLIER_PEER_SECRET)
        == 200
    )
    for own in made[1:]:
        for other in (f"{path}/{own}", path, f"{watch}{own}"):
            assert api.read(SIDECAR, other) == 403
        assert api.read(user_of("node-1"), f"{path}/{own}") == 403
    assert api.read(user_of("node-1"), f"{path}/{names.EARLIER_PEER_SECRET}") == 403
    for name in made:
        apiserver.delete(SECRETS, name, NAMESPACE)


async def test_a_sidecar_reads_a_secret_in_the_name_of_its_node_and_no_other(
    api: Api, apiserver: ApiServer, namespace: str, nodes: list[str]
) -> None:
    apiserver.create(SECRETS, "keys", namespace)
    assert api.apply_role(namespace, GOOD_RULE)[0] == api.apply_binding(namespace, LONG)[0] == 201
    path = f"/api/v1/namespaces/{namespace}/secrets/keys"
    wait_until(lambda: api.read(user_of(LONG), path) == 200)  # the authorizer watches roles

    async def read(node: str) -> Object:
        async with await apiserver.client() as kube:
            sidecar = kube.as_bearer(await token_of_sidecar(kube, node))
            account = NodeAccount(sidecar, NAMESPACE, node, time.monotonic, lambda: datetime.now(UTC))
            return await account.ask(lambda asked: asked.get(SECRETS, "keys", namespace))

    assert (await read(LONG))["metadata"]["name"] == "keys"
    with pytest.raises(Forbidden, match=f'User "{user_of("node-1")}" cannot get'):
        await read("node-1")
    await all_sockets_closed()


PROFILE = {"apiVersion": names.API_VERSION, "kind": "TuningProfile", "metadata": {"name": "theirs"}, "spec": {}}


@pytest.fixture
def careless(apiserver: ApiServer) -> Iterator[None]:
    """Let an administrator give the sidecars more rights than the chart does."""
    name, group = "careless", "rbac.authorization.k8s.io"
    kinds = ["tuningprofiles", "datasetclasses"]
    rule = {"apiGroups": [names.GROUP], "resources": kinds, "verbs": ["create", "patch", "delete"]}
    apiserver.create(CLUSTER_ROLES, name, rules=[rule])
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    apiserver.create(
        CLUSTER_ROLE_BINDINGS, name, roleRef=role, subjects=[{"apiGroup": group, "kind": "User", "name": SIDECAR}]
    )
    yield
    apiserver.delete(CLUSTER_ROLE_BINDINGS, name)
    apiserver.delete(CLUSTER_ROLES, name)


def test_a_sidecar_reads_profiles_and_writes_none(api: Api) -> None:
    path = f"/apis/{names.API_VERSION}/{names.TUNING_PROFILES_PLURAL}"
    assert api.read(SIDECAR, path) == 200
    assert api.may_create(SIDECAR, names.TUNING_PROFILES_PLURAL, PROFILE)[0] == 403


def test_a_sidecar_writes_no_profile_even_where_someone_gave_it_the_right(api: Api, careless: None) -> None:
    def refused() -> bool:
        return api.may_create(SIDECAR, names.TUNING_PROFILES_PLURAL, PROFILE)[0] == 422

    wait_until(refused)  # rights and policies take effect shortly after their write
    _, sentence = api.may_create(SIDECAR, names.TUNING_PROFILES_PLURAL, PROFILE)
    assert "a sidecar may not write tuningprofiles, only the status of its own NodeCache" in sentence

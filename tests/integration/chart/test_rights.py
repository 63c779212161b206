"""What operator and sidecars may do, asked of a real API server with the chart's RBAC and admission policies in it."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker_api import names
from tests.support.apiserver import ApiServer
from tests.support.chart import NAMESPACE, is_hook, of_kind, render

OPERATOR = f"system:serviceaccount:{NAMESPACE}:stoker-operator"
SIDECAR = f"system:serviceaccount:{NAMESPACE}:stoker-sidecar"
RBAC = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
NODE_CLAIM = "authentication.kubernetes.io%2fnode-name"  # in a header's name a slash is escaped
ACTIVE_SECONDS = 30.0  # a new policy takes effect some seconds after it was written
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class Api:
    """Requests to the API server in the name of others."""

    def __init__(self, server: ApiServer) -> None:
        config = yaml.safe_load(Path(server.kubeconfig).read_text())
        authority = config["clusters"][0]["cluster"]["certificate-authority"]
        self._tls = ssl.create_default_context(cafile=authority)
        self._server = server

    def patch(self, user: str, path: str, content_type: str, body: Any, node: str = "") -> tuple[int, str]:
        """Return the status and, when refused, the sentence."""
        headers = {
            "Authorization": f"Bearer {self._server.token}",
            "Content-Type": content_type,
            "Impersonate-User": user,
        }
        if node:
            headers[f"Impersonate-Extra-{NODE_CLAIM}"] = node
        request = urllib.request.Request(
            self._server.url + path, json.dumps(body).encode(), headers=headers, method="PATCH"
        )
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=10) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["message"]

    def apply_role(self, namespace: str, rule: dict[str, list[str]], name: str = "") -> tuple[int, str]:
        """Apply, as the operator, the Role of the credentials with one rule; with ``name``, a Role of that name."""
        group = "rbac.authorization.k8s.io/v1"
        name = name or names.CREDENTIALS_ROLE
        role = {"apiVersion": group, "kind": "Role", "metadata": {"name": name}, "rules": [rule]}
        path = f"/apis/{group}/namespaces/{namespace}/roles/{name}?fieldManager=test&force=true"
        return self.patch(OPERATOR, path, APPLY, role)

    def apply_binding(self, namespace: str, account: str) -> tuple[int, str]:
        """Apply, as the operator, the RoleBinding of the credentials, to a service account of Stoker's namespace."""
        group = "rbac.authorization.k8s.io/v1"
        name = names.CREDENTIALS_ROLE
        binding = {
            "apiVersion": group,
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
        }
        path = f"/apis/{group}/namespaces/{namespace}/rolebindings/{name}?fieldManager=test&force=true"
        return self.patch(OPERATOR, path, APPLY, binding)

    def patch_node_cache(self, name: str, node: str) -> tuple[int, str]:
        """Patch a NodeCache's status in the name of the sidecar of ``node``; empty: a token without a node."""
        path = f"/apis/{names.API_VERSION}/{names.NODE_CACHES_PLURAL}/{name}/status"
        return self.patch(SIDECAR, path, MERGE, {"status": {"used": "1 B"}}, node)


@contextmanager
def applied(server: ApiServer, folder: Path) -> Iterator[None]:
    """Apply the chart's rights and policies, without what needs nodes."""
    documents = [one for one in of_kind(render({}), *RBAC, *POLICIES) if not is_hook(one)]
    file = folder / "rights.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    server.kubectl("create", "namespace", NAMESPACE)
    server.kubectl("apply", f"--filename={file}")
    yield
    server.kubectl("delete", f"--filename={file}")


@pytest.fixture(scope="module")
def api(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Give the API server the chart's rights, and wait until both policies work."""
    with applied(apiserver, tmp_path_factory.mktemp("rights")):
        api = Api(apiserver)
        apiserver.kubectl("create", "namespace", "policy-probe")
        deadline = time.monotonic() + ACTIVE_SECONDS
        refused = False
        while not refused:
            assert time.monotonic() < deadline, "the policies did not take effect"
            broad = api.apply_role("policy-probe", GOOD_RULE | {"verbs": ["list"]})
            binding = api.apply_binding("policy-probe", "default")
            refused = broad[0] == binding[0] == 422
        yield api


@pytest.fixture
def node_caches(apiserver: ApiServer, tmp_path: Path) -> list[str]:
    """Create two NodeCaches."""
    wanted = ["rights-a", "rights-b"]
    objects = [
        {"apiVersion": names.API_VERSION, "kind": "NodeCache", "metadata": {"name": name}, "spec": {}}
        for name in wanted
    ]
    file = tmp_path / "nodecaches.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    apiserver.kubectl("apply", f"--filename={file}")
    return wanted


GOOD_RULE = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["keys"], "verbs": ["get"]}


@pytest.mark.parametrize(
    "rule",
    [
        GOOD_RULE,
        {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["reader"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["reader"], "verbs": ["create"]},
    ],
    ids=lambda rule: rule["resources"][0],
)
def test_the_operator_may_grant_what_datasets_name(api: Api, namespace: str, rule: dict[str, list[str]]) -> None:
    assert api.apply_role(namespace, rule) == (201, "")


@pytest.mark.parametrize(
    "rule",
    [
        GOOD_RULE | {"verbs": ["get", "list"]},
        GOOD_RULE | {"verbs": ["*"]},
        GOOD_RULE | {"resources": ["secrets", "pods"]},
        GOOD_RULE | {"resources": ["configmaps"]},
        GOOD_RULE | {"apiGroups": ["apps"]},
        GOOD_RULE | {"resourceNames": []},
        {key: value for key, value in GOOD_RULE.items() if key != "resourceNames"},
    ],
    ids=["list", "any verb", "more kinds", "other kind", "other group", "no names", "all names"],
)
def test_the_operator_may_grant_nothing_else(api: Api, namespace: str, rule: dict[str, list[str]]) -> None:
    status, sentence = api.apply_role(namespace, rule)
    assert status == 422
    assert "may hold only get on named Secrets" in sentence


def test_the_operator_may_write_no_role_of_another_name(api: Api, namespace: str) -> None:
    assert api.apply_role(namespace, GOOD_RULE, name="another")[0] == 403


def test_the_operator_may_bind_its_role_to_the_sidecars(api: Api, namespace: str) -> None:
    assert api.apply_binding(namespace, "stoker-sidecar") == (201, "")


def test_the_operator_may_bind_its_role_to_nobody_else(api: Api, namespace: str) -> None:
    status, sentence = api.apply_binding(namespace, "default")
    assert status == 422
    assert "only to Stoker's sidecars" in sentence


def test_a_sidecar_may_write_its_own_nodes_status(api: Api, node_caches: list[str]) -> None:
    assert api.patch_node_cache(node_caches[0], node=node_caches[0]) == (200, "")


def test_a_sidecar_may_not_write_its_neighbours_status(api: Api, node_caches: list[str]) -> None:
    status, sentence = api.patch_node_cache(node_caches[1], node=node_caches[0])
    assert status == 422
    assert f"the sidecar of node {node_caches[0]} may not write NodeCache {node_caches[1]}" in sentence


def test_a_sidecars_token_without_a_node_may_write_nothing(api: Api, node_caches: list[str]) -> None:
    assert api.patch_node_cache(node_caches[0], node="")[0] == 422

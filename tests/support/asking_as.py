"""Requests to a real API server as other users, with the chart's RBAC and admission policies in it."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from stoker_api import names
from stoker_kube.client import KubeClient
from stoker_kube.resources import NODE_CACHES, PODS, SERVICE_ACCOUNTS
from tests.support.apiserver import ApiServer
from tests.support.chart import NAMESPACE, is_hook, of_kind, render
from tests.support.kinds import NAMESPACES

OPERATOR = f"system:serviceaccount:{NAMESPACE}:stoker-operator"
SIDECAR = f"system:serviceaccount:{NAMESPACE}:stoker-sidecar"
ACCOUNTS = names.node_accounts_namespace(NAMESPACE)
ROLE = f"{names.CREDENTIALS_PREFIX}0123456789abcdef"
RBAC = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
NODE_CLAIM = "authentication.kubernetes.io%2fnode-name"  # a header name has its slash escaped
ACTIVE_SECONDS = 60.0  # a new policy takes effect some seconds after its write
ANSWER_SECONDS = 60.0
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"

GPU_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
STARTUP_TAINT = {"key": names.TAINT_AGENT_NOT_READY, "effect": "NoSchedule"}
TAINTED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "tainted", "labels": {"pool": "gpu"}},
    "spec": {"taints": [GPU_TAINT, STARTUP_TAINT]},
}
GOOD_RULE = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["keys"], "verbs": ["get"]}


def event(namespace: str, kind: str) -> dict[str, Any]:
    about = {"apiVersion": names.API_VERSION, "kind": kind, "name": "a", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "a", "namespace": namespace},
        "involvedObject": about,
        "source": {"component": "stoker-sidecar"},
    }


class Api:
    """Requests to the API server as other users."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def patch(self, user: str, path: str, content_type: str, body: Any, node: str = "") -> tuple[int, str]:
        """Return the status and, if refused, the message."""
        return self.send("PATCH", user, path, content_type, body, node)

    def send(self, method: str, user: str, path: str, content_type: str, body: Any, node: str = "") -> tuple[int, str]:
        """Return the status and, if refused, the message."""
        headers = {
            "Authorization": f"Bearer {self._server.token}",
            "Content-Type": content_type,
            "Impersonate-User": user,
        }
        if node:
            headers[f"Impersonate-Extra-{NODE_CLAIM}"] = node
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._server.url + path, content, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._server.tls, timeout=ANSWER_SECONDS) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["message"]

    def apply_role(self, namespace: str, rule: dict[str, list[str]], name: str = "") -> tuple[int, str]:
        """Apply, as the operator, the Role of the credentials with one rule. With ``name``, use a Role of that name."""
        group = "rbac.authorization.k8s.io/v1"
        name = name or ROLE
        role = {"apiVersion": group, "kind": "Role", "metadata": {"name": name}, "rules": [rule]}
        path = f"/apis/{group}/namespaces/{namespace}/roles/{name}?fieldManager=test&force=true"
        return self.patch(OPERATOR, path, APPLY, role)

    def apply_binding(self, namespace: str, account: str, home: str = ACCOUNTS, role: str = "") -> tuple[int, str]:
        """Apply, as the operator, a RoleBinding of the credentials to a service account of the namespace ``home``."""
        group = "rbac.authorization.k8s.io/v1"
        name = f"{ROLE}-07"
        binding = {
            "apiVersion": group,
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role or ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
        }
        path = f"/apis/{group}/namespaces/{namespace}/rolebindings/{name}?fieldManager=test&force=true"
        return self.patch(OPERATOR, path, APPLY, binding)

    def may_create(self, user: str, plural: str, body: Any) -> tuple[int, str]:
        """Ask whether an object may be created. Its metadata has its namespace, if any."""
        namespace = body["metadata"].get("namespace")
        group = body["apiVersion"]
        where = f"/namespaces/{namespace}" if namespace else ""
        path = f"/{'api' if group == 'v1' else 'apis'}/{group}{where}/{plural}?dryRun=All"
        return self.send("POST", user, path, "application/json", body)

    def patch_pod(self, namespace: str, patch: Any, pod: str = "pod") -> tuple[int, str]:
        """Patch a pod as the operator. A list is a JSON patch. ``pod`` is its name, or ``NAME/status``."""
        kind = JSON if isinstance(patch, list) else MERGE
        return self.patch(OPERATOR, f"/api/v1/namespaces/{namespace}/pods/{pod}", kind, patch)

    def patch_node(self, patch: Any) -> tuple[int, str]:
        """Patch the tainted node as the operator, without effect. A list is a JSON patch."""
        kind = JSON if isinstance(patch, list) else MERGE
        return self.patch(OPERATOR, f"/api/v1/nodes/{TAINTED['metadata']['name']}?dryRun=All", kind, patch)

    def token(self, user: str, namespace: str, account: str, node: str = "", **spec: Any) -> tuple[int, str]:
        """Request a token of a service account. ``node`` is the node in the user's own token."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return self.send("POST", user, path, "application/json", body, node)

    def read(self, user: str, path: str) -> int:
        """Read an object. Return the status."""
        return self.send("GET", user, path, "application/json", None)[0]

    def patch_node_cache(self, name: str, node: str) -> tuple[int, str]:
        """Patch a NodeCache's status as the sidecar of ``node``. Empty uses a token without a node."""
        path = f"/apis/{names.API_VERSION}/{names.NODE_CACHES_PLURAL}/{name}/status"
        return self.patch(SIDECAR, path, MERGE, {"status": {"used": "1 B"}}, node)


@contextmanager
def applied(server: ApiServer, folder: Path) -> Iterator[None]:
    """Apply the chart's rights and policies, without the objects that need nodes."""
    values = {"operator": {"startupTaint": {"enabled": True}}}
    documents = [one for one in of_kind(render(values), *RBAC, *POLICIES) if not is_hook(one)]
    file = folder / "rights.yaml"
    file.write_text(yaml.safe_dump_all([*documents, TAINTED]))
    server.create(NAMESPACES, NAMESPACE)
    server.kubectl("apply", f"--filename={file}")
    yield
    server.kubectl("delete", "--wait=false", "--ignore-not-found", f"--filename={file}")


CONTAINER = {"name": "main", "image": "good"}
HOST_PATH = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "root-of-the-node"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/"},
    },
}


def job(namespace: str, name: str = "job", **metadata: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    meta = {"name": name, "namespace": namespace} | metadata
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}


def owner(name: str, kind: str = "TrainingJob") -> list[dict[str, Any]]:
    return [{"apiVersion": names.API_VERSION, "kind": kind, "name": name, "uid": "u", "controller": True}]


def api_service(group: str = "figures.stoker.dev", version: str = "v1alpha1", **service: Any) -> dict[str, Any]:
    where = {"name": "stoker-webhook", "namespace": NAMESPACE, "port": 8443} | service
    spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 10, "service": where}
    meta = {"name": f"{version}.{group}"}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": meta, "spec": spec}


def activated(server: ApiServer) -> Api:
    """Wait until the policies work. Return the client that sends requests as other users.

    Each policy takes effect on its own, so each one has a request here that it refuses.
    """
    api = Api(server)
    server.create(NAMESPACES, "policy-probe")
    server.create(SERVICE_ACCOUNTS, "policy-probe", ACCOUNTS)
    server.create(PODS, "policy-probe", "policy-probe", spec={"containers": [CONTAINER]})
    server.create(NODE_CACHES, "policy-probe", spec={})
    deadline = time.monotonic() + ACTIVE_SECONDS
    refused = False
    while not refused:
        assert time.monotonic() < deadline, "the policies did not take effect"
        broad = api.apply_role("policy-probe", GOOD_RULE | {"verbs": ["list"]})
        binding = api.apply_binding("policy-probe", "default", "policy-probe")
        probe = [
            broad,
            binding,
            api.may_create(OPERATOR, "jobs", job("policy-probe")),
            api.may_create(OPERATOR, "persistentvolumes", HOST_PATH),
            api.may_create(SIDECAR, "events", event("policy-probe", "Pod")),
            api.may_create(OPERATOR, "apiservices", api_service(name="evil")),
            api.patch_node({"metadata": {"labels": {"probe": "x"}}}),
            api.patch_pod("policy-probe", {"metadata": {"annotations": {"note": "x"}}}, "policy-probe"),
            api.patch_pod("policy-probe", {"status": {"message": "evil"}}, "policy-probe/status"),
            api.patch_node_cache("policy-probe", node="another"),
            api.token(SIDECAR, ACCOUNTS, "policy-probe", node="another"),
        ]
        refused = all(status == 422 for status, _ in probe)
    return api


async def token_of_sidecar(kube: KubeClient, node: str) -> str:
    """Return a token as the kubelet would give it to the sidecar's pod on a node."""
    container = {"name": "sidecar", "image": "none"}
    meta = {"generateName": "sidecar-", "namespace": NAMESPACE}
    spec = {"nodeName": node, "serviceAccountName": "stoker-sidecar", "containers": [container]}
    pod = await kube.create(PODS, {"metadata": meta, "spec": spec})
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    body = {"spec": {"boundObjectRef": bound}}
    answer = await kube.create_subresource(SERVICE_ACCOUNTS, "stoker-sidecar", NAMESPACE, "token", body)
    return str(answer["status"]["token"])

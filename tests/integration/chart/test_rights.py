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
from stoker_api.dataset import Dataset
from stoker_operator.core.views import Taint
from stoker_operator.core.volumes import labels_for, persistent_volume, persistent_volume_claim
from stoker_operator.reconcilers.startup_taints import without_startup_taint
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
JSON = "application/json-patch+json"


class Api:
    """Requests to the API server in the name of others."""

    def __init__(self, server: ApiServer) -> None:
        config = yaml.safe_load(Path(server.kubeconfig).read_text())
        authority = config["clusters"][0]["cluster"]["certificate-authority"]
        self._tls = ssl.create_default_context(cafile=authority)
        self._server = server

    def patch(self, user: str, path: str, content_type: str, body: Any, node: str = "") -> tuple[int, str]:
        """Return the status and, when refused, the sentence."""
        return self.send("PATCH", user, path, content_type, body, node)

    def send(self, method: str, user: str, path: str, content_type: str, body: Any, node: str = "") -> tuple[int, str]:
        """Return the status and, when refused, the sentence."""
        headers = {
            "Authorization": f"Bearer {self._server.token}",
            "Content-Type": content_type,
            "Impersonate-User": user,
        }
        if node:
            headers[f"Impersonate-Extra-{NODE_CLAIM}"] = node
        request = urllib.request.Request(
            self._server.url + path, json.dumps(body).encode(), headers=headers, method=method
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

    def may_create(self, user: str, plural: str, body: Any) -> tuple[int, str]:
        """Ask whether an object may be created, whose metadata names its namespace where it has one."""
        namespace = body["metadata"].get("namespace")
        group = body["apiVersion"]
        where = f"/namespaces/{namespace}" if namespace else ""
        path = f"/{'api' if group == 'v1' else 'apis'}/{group}{where}/{plural}?dryRun=All"
        return self.send("POST", user, path, "application/json", body)

    def patch_pod(self, namespace: str, patch: Any, pod: str = "pod") -> tuple[int, str]:
        """Patch a pod as the operator; a list is a JSON patch."""
        kind = JSON if isinstance(patch, list) else MERGE
        return self.patch(OPERATOR, f"/api/v1/namespaces/{namespace}/pods/{pod}", kind, patch)

    def patch_node(self, patch: Any) -> tuple[int, str]:
        """Patch the tainted node as the operator, without effect; a list is a JSON patch."""
        kind = JSON if isinstance(patch, list) else MERGE
        return self.patch(OPERATOR, f"/api/v1/nodes/{TAINTED['metadata']['name']}?dryRun=All", kind, patch)

    def token(self, namespace: str, account: str, **spec: Any) -> tuple[int, str]:
        """Ask as a sidecar for a token of a service account."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return self.send("POST", SIDECAR, path, "application/json", body)

    def patch_node_cache(self, name: str, node: str) -> tuple[int, str]:
        """Patch a NodeCache's status in the name of the sidecar of ``node``; empty: a token without a node."""
        path = f"/apis/{names.API_VERSION}/{names.NODE_CACHES_PLURAL}/{name}/status"
        return self.patch(SIDECAR, path, MERGE, {"status": {"used": "1 B"}}, node)


GPU_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
STARTUP_TAINT = {"key": names.TAINT_AGENT_NOT_READY, "effect": "NoSchedule"}
TAINTED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "tainted", "labels": {"pool": "gpu"}},
    "spec": {"taints": [GPU_TAINT, STARTUP_TAINT]},
}


@contextmanager
def applied(server: ApiServer, folder: Path) -> Iterator[None]:
    """Apply the chart's rights and policies, without what needs nodes."""
    values = {"operator": {"startupTaint": {"enabled": True}}}
    documents = [one for one in of_kind(render(values), *RBAC, *POLICIES) if not is_hook(one)]
    file = folder / "rights.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    server.kubectl("create", "namespace", NAMESPACE)
    server.kubectl("apply", f"--filename={file}")
    yield
    server.kubectl("delete", f"--filename={file}")


@pytest.fixture(scope="module")
def api(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Give the API server the chart's rights, and wait until both policies work."""
    folder = tmp_path_factory.mktemp("rights")
    with applied(apiserver, folder):
        api = Api(apiserver)
        apiserver.kubectl("create", "namespace", "policy-probe")
        (folder / "node.json").write_text(json.dumps(TAINTED))
        apiserver.kubectl("create", f"--filename={folder / 'node.json'}")
        deadline = time.monotonic() + ACTIVE_SECONDS
        refused = False
        while not refused:
            assert time.monotonic() < deadline, "the policies did not take effect"
            broad = api.apply_role("policy-probe", GOOD_RULE | {"verbs": ["list"]})
            binding = api.apply_binding("policy-probe", "default")
            probe = [
                broad,
                binding,
                api.may_create(OPERATOR, "jobs", job("policy-probe")),
                api.may_create(OPERATOR, "persistentvolumes", HOST_PATH),
                api.may_create(SIDECAR, "events", event("policy-probe", "Pod")),
                api.patch_node({"metadata": {"labels": {"probe": "x"}}}),
            ]
            refused = all(status == 422 for status, _ in probe)
        yield api
        apiserver.kubectl("delete", "node", "tainted")


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


def event(namespace: str, kind: str) -> dict[str, Any]:
    about = {"apiVersion": names.API_VERSION, "kind": kind, "name": "a", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "a", "namespace": namespace},
        "involvedObject": about,
        "source": {"component": "stoker-sidecar"},
    }


@pytest.fixture
def held(apiserver: ApiServer, namespace: str, tmp_path: Path) -> str:
    """Make a held pod with another gate, and a free one, in a namespace of their own."""
    gates = [{"name": "other"}, {"name": names.GATE_WARM}]
    meta = {"namespace": namespace, "labels": {"team": "a"}, "annotations": {"note": "kept"}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta | {"name": name},
            "spec": {"containers": [CONTAINER]} | spec,
        }
        for name, spec in (("pod", {"schedulingGates": gates}), ("free", {}))
    ]
    file = tmp_path / "pods.yaml"
    file.write_text(yaml.safe_dump_all(pods))
    apiserver.kubectl("apply", f"--filename={file}")
    return namespace


def test_the_operator_may_release_a_pod_that_its_gate_holds(api: Api, held: str) -> None:
    waiting = {"metadata": {"annotations": {names.ANNOTATION_WAITING: "for data", names.ANNOTATION_HELD_SINCE: ""}}}
    assert api.patch_pod(held, waiting) == (200, "")
    by_name = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    released = [
        {"op": "remove", "path": "/spec/schedulingGates/1"},
        {
            "op": "add",
            "path": "/spec/affinity",
            "value": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        },
        {"op": "add", "path": "/metadata/annotations/stoker.dev~1released", "value": "{}"},
        {"op": "remove", "path": "/metadata/annotations/stoker.dev~1waiting"},
    ]
    assert api.patch_pod(held, released) == (200, "")


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"containers": [CONTAINER | {"image": "evil"}]}}, "only its scheduling gate"),
        ({"spec": {"nodeSelector": {"a": "b"}}}, "only its scheduling gate"),
        ({"spec": {"activeDeadlineSeconds": 1}}, "only its scheduling gate"),
        ([{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}], "only its scheduling gate"),
        ({"spec": {"schedulingGates": None}}, "only its own"),
        ({"metadata": {"annotations": {"note": "changed"}}}, "annotations"),
        ({"metadata": {"annotations": {"note": None}}}, "annotations"),
        ({"metadata": {"annotations": {"more": "x"}}}, "annotations"),
        ({"metadata": {"labels": {"team": "b"}}}, "labels"),
        ({"metadata": {"finalizers": ["a.example/b"]}}, "labels, finalizers"),
    ],
)
def test_of_a_held_pod_the_operator_may_write_nothing_else(api: Api, held: str, patch: Any, words: str) -> None:
    status, sentence = api.patch_pod(held, patch)
    assert status == 422
    assert words in sentence


def test_the_operator_may_write_no_pod_that_its_gate_does_not_hold(api: Api, held: str) -> None:
    status, sentence = api.patch_pod(held, {"metadata": {"annotations": {names.ANNOTATION_WAITING: "x"}}}, "free")
    assert (status, "only pods that its own scheduling gate holds" in sentence) == (422, True)


def test_the_operator_may_make_the_job_of_a_training_job_in_its_namespace(api: Api, namespace: str) -> None:
    assert api.may_create(OPERATOR, "jobs", job(namespace, ownerReferences=owner("job"))) == (201, "")


@pytest.mark.parametrize(
    "metadata",
    [{}, {"ownerReferences": owner("other")}, {"ownerReferences": owner("job", "Dataset")}],
    ids=["nobody's", "another's", "a Dataset's"],
)
def test_the_operator_may_make_no_other_job(api: Api, namespace: str, metadata: Any) -> None:
    assert api.may_create(OPERATOR, "jobs", job(namespace, **metadata))[0] == 422


@pytest.mark.parametrize("namespace", ["kube-system", NAMESPACE])
def test_the_operator_may_make_no_job_beside_the_clusters_own_pods(api: Api, namespace: str) -> None:
    assert api.may_create(OPERATOR, "jobs", job(namespace, ownerReferences=owner("job")))[0] == 422


def test_the_operator_may_neither_change_nor_delete_jobs_of_others(
    api: Api, apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job(namespace)))
    apiserver.kubectl("apply", f"--filename={file}")
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/job"
    assert api.patch(OPERATOR, path, MERGE, {"spec": {"suspend": True}})[0] == 422
    adopted = {"metadata": {"ownerReferences": owner("job")}}
    assert api.patch(OPERATOR, path, MERGE, adopted)[0] == 422
    assert api.send("DELETE", OPERATOR, path, "application/json", {})[0] == 422


def service(namespace: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": "ddp", "namespace": namespace, "ownerReferences": owner("ddp")}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "None"} | spec}


def test_the_operator_may_make_only_headless_services(api: Api, namespace: str) -> None:
    assert api.may_create(OPERATOR, "services", service(namespace)) == (201, "")
    for spec in ({"externalIPs": ["10.0.0.1"]}, {"clusterIP": "10.0.0.99", "ports": [{"port": 80}]}):
        assert api.may_create(OPERATOR, "services", service(namespace, **spec))[0] == 422


def test_the_operator_may_make_the_volumes_of_datasets_alone(api: Api, namespace: str) -> None:
    meta = {"namespace": namespace, "name": "imagenet", "uid": "u"}
    dataset = Dataset.model_validate({"metadata": meta, "spec": {"source": {"uri": "s3://bucket/"}}})
    assert api.may_create(OPERATOR, "persistentvolumes", persistent_volume(dataset)) == (201, "")
    assert api.may_create(OPERATOR, "persistentvolumeclaims", persistent_volume_claim(dataset)) == (201, "")
    labelled = HOST_PATH | {"metadata": {"name": "loot", "labels": labels_for(dataset)}}
    for body in (HOST_PATH, labelled):
        assert api.may_create(OPERATOR, "persistentvolumes", body)[0] == 422


@pytest.fixture
def account(api: Api, apiserver: ApiServer, namespace: str) -> str:
    """Make a service account whose tokens the sidecars may mint, as a Dataset that names it has it."""
    apiserver.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    rule = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["reader"], "verbs": ["create"]}
    assert api.apply_role(namespace, rule)[0] == 201
    assert api.apply_binding(namespace, "stoker-sidecar")[0] == 201
    return namespace


def test_a_sidecar_may_mint_tokens_for_sts_and_for_nobody_else(api: Api, account: str) -> None:
    assert api.token(account, "reader", audiences=[names.WEB_IDENTITY_AUDIENCE], expirationSeconds=3600) == (201, "")
    wrong: list[dict[str, Any]] = [
        {},
        {"audiences": []},
        {"audiences": ["https://kubernetes.default.svc"]},
        {"audiences": [names.WEB_IDENTITY_AUDIENCE, "https://kubernetes.default.svc"]},
        {"audiences": [names.WEB_IDENTITY_AUDIENCE], "expirationSeconds": 86400},
    ]
    for spec in wrong:
        assert api.token(account, "reader", **spec)[0] == 422


def test_a_sidecar_may_tell_of_datasets_and_node_caches_and_of_nothing_else(api: Api, namespace: str) -> None:
    assert api.may_create(SIDECAR, "events", event(namespace, "Dataset")) == (201, "")
    assert api.may_create(SIDECAR, "events", event(namespace, "Pod"))[0] == 422
    forged = event(namespace, "Dataset") | {"source": {"component": "kubelet"}}
    assert api.may_create(SIDECAR, "events", forged)[0] == 422


def test_the_operator_may_take_its_start_up_taint_off_a_node(api: Api) -> None:
    # The API server adds a taint of its own to a new node.
    taints = (Taint(GPU_TAINT["key"], "", "NoSchedule"), Taint(STARTUP_TAINT["key"], "", "NoSchedule"))
    assert api.patch_node(without_startup_taint(taints)) == (200, "")


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"taints": [STARTUP_TAINT]}},
        {"spec": {"taints": []}},
        {"spec": {"taints": [GPU_TAINT, {"key": "evil", "effect": "NoExecute"}]}},
        {"spec": {"taints": [GPU_TAINT], "unschedulable": True}},
        {"metadata": {"labels": {"pool": "cpu"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ],
    ids=["another taint", "all taints", "a new taint", "cordon", "labels", "annotations"],
)
def test_the_operator_may_change_nothing_else_of_a_node(api: Api, patch: Any) -> None:
    assert api.patch_node(patch)[0] == 422

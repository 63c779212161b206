"""The operator's rights, checked by a real API server with the chart's RBAC and admission policies."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_kube.resources import JOBS, PODS, ROLES
from stoker_operator.core.plans.volumes import labels_for, persistent_volume, persistent_volume_claim
from stoker_operator.core.views.cluster import Taint
from stoker_operator.reconcilers.startup_taints import without_startup_taint
from tests.support.apiserver import ApiServer
from tests.support.asking_as import (
    ACCOUNTS,
    CONTAINER,
    GOOD_RULE,
    GPU_TAINT,
    HOST_PATH,
    MERGE,
    OPERATOR,
    STARTUP_TAINT,
    Api,
    api_service,
    job,
    owner,
)
from tests.support.chart import NAMESPACE


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
        GOOD_RULE | {"resourceNames": ["keys", "more"]},
        {key: value for key, value in GOOD_RULE.items() if key != "resourceNames"},
    ],
    ids=["list", "any verb", "more kinds", "other kind", "other group", "no names", "two names", "all names"],
)
def test_the_operator_may_grant_nothing_else(api: Api, shared_namespace: str, rule: dict[str, list[str]]) -> None:
    status, sentence = api.apply_role(shared_namespace, rule)
    assert status == 422
    assert "may hold only get on one named Secret" in sentence


def test_the_operator_may_write_no_role_of_another_name(api: Api, shared_namespace: str) -> None:
    for name in ("another", names.CREDENTIALS_ROLE):
        status, sentence = api.apply_role(shared_namespace, GOOD_RULE, name=name)
        assert (status, "names begin with stoker-credentials-" in sentence) == (422, True)


def test_the_operator_may_neither_change_nor_delete_roles_of_others(
    api: Api, apiserver: ApiServer, namespace: str
) -> None:
    apiserver.create(ROLES, "theirs", namespace, rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/theirs"
    assert api.patch(OPERATOR, path, MERGE, {"rules": [GOOD_RULE]})[0] == 422
    assert api.send("DELETE", OPERATOR, path, "application/json", {})[0] == 422


def test_the_role_of_earlier_versions_may_go(api: Api, apiserver: ApiServer, namespace: str) -> None:
    name = names.CREDENTIALS_ROLE
    apiserver.create(ROLES, name, namespace, rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/{name}"
    assert api.send("DELETE", OPERATOR, path, "application/json", {}) == (200, "")


@pytest.mark.parametrize("node", ["a", "n" * 253], ids=["short", "longest"])
def test_the_operator_may_bind_its_role_to_a_node(api: Api, namespace: str, node: str) -> None:
    assert api.apply_binding(namespace, node) == (201, "")


@pytest.mark.parametrize(
    ("account", "home", "role"),
    [("default", "default", ""), ("stoker-sidecar", NAMESPACE, ""), ("a", ACCOUNTS, "admin")],
    ids=["another's account", "all sidecars", "another's role"],
)
def test_the_operator_may_make_no_other_binding(
    api: Api, shared_namespace: str, account: str, home: str, role: str
) -> None:
    status, sentence = api.apply_binding(shared_namespace, account, home, role)
    assert (status, "only to the accounts of nodes" in sentence) == (422, True)


def make_pods(apiserver: ApiServer, namespace: str) -> str:
    """Make a gated pod with another gate, and a free one."""
    gates = [{"name": "other"}, {"name": names.GATE_WARM}]
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "kept"}}
    for name, spec in (("pod", {"schedulingGates": gates}), ("free", {})):
        apiserver.create(PODS, name, namespace, metadata=metadata, spec={"containers": [CONTAINER]} | spec)
    return namespace


@pytest.fixture
def held(apiserver: ApiServer, namespace: str) -> str:
    """Make both pods for one test, which may change them."""
    return make_pods(apiserver, namespace)


@pytest.fixture(scope="module")
def untouched(apiserver: ApiServer, shared_namespace: str) -> str:
    """Make both pods for tests whose patches are all refused."""
    return make_pods(apiserver, shared_namespace)


def test_the_operator_may_write_the_scheduling_of_a_training_job_onto_a_held_pod(api: Api, held: str) -> None:
    changed = {names.ANNOTATION_SCHEDULING: "None", names.ANNOTATION_MAX_WAIT: "1m"}
    assert api.patch_pod(held, {"metadata": {"annotations": changed}}) == (200, "")


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
def test_of_a_held_pod_the_operator_may_write_nothing_else(api: Api, untouched: str, patch: Any, words: str) -> None:
    status, sentence = api.patch_pod(untouched, patch)
    assert status == 422
    assert words in sentence


def test_the_operator_may_write_no_pod_that_its_gate_does_not_hold(api: Api, untouched: str) -> None:
    status, sentence = api.patch_pod(untouched, {"metadata": {"annotations": {names.ANNOTATION_WAITING: "x"}}}, "free")
    assert (status, "only pods that its own scheduling gate holds" in sentence) == (422, True)


def test_the_operator_may_nominate_a_node_for_a_pod_that_its_gate_holds(api: Api, held: str) -> None:
    assert api.patch_pod(held, {"status": {"nominatedNodeName": "a"}}, "pod/status") == (200, "")


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"status": {"phase": "Succeeded"}}, "only the nominated node"),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "only the nominated node"),
        ({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}, "only the nominated node"),
        ({"status": {"message": "evil"}}, "only the nominated node"),
        ({"metadata": {"labels": {"team": "b"}}}, "may not write its labels"),
        ({"metadata": {"annotations": {"note": "changed"}}}, "may not write its annotations"),
        ({"metadata": {"annotations": {"more": "x"}}}, "may not write its annotations"),
        ({"metadata": {"finalizers": ["a.example/b"]}}, "may not write its finalizers"),
    ],
)
def test_of_a_held_pods_status_the_operator_may_write_nothing_else(
    api: Api, untouched: str, patch: Any, words: str
) -> None:
    status, sentence = api.patch_pod(untouched, patch, "pod/status")
    assert (status, words in sentence) == (422, True)


def test_the_operator_may_nominate_no_node_for_a_pod_that_its_gate_does_not_hold(api: Api, untouched: str) -> None:
    status, sentence = api.patch_pod(untouched, {"status": {"nominatedNodeName": "a"}}, "free/status")
    assert (status, "only for pods that its own scheduling gate holds" in sentence) == (422, True)


def test_the_operator_may_make_the_job_of_a_training_job_in_its_namespace(api: Api, shared_namespace: str) -> None:
    assert api.may_create(OPERATOR, "jobs", job(shared_namespace, ownerReferences=owner("job"))) == (201, "")


@pytest.mark.parametrize(
    "metadata",
    [{}, {"ownerReferences": owner("other")}, {"ownerReferences": owner("job", "Dataset")}],
    ids=["nobody's", "another's", "a Dataset's"],
)
def test_the_operator_may_make_no_other_job(api: Api, shared_namespace: str, metadata: Any) -> None:
    assert api.may_create(OPERATOR, "jobs", job(shared_namespace, **metadata))[0] == 422


@pytest.mark.parametrize("namespace", ["kube-system", NAMESPACE])
def test_the_operator_may_make_no_job_beside_the_clusters_own_pods(api: Api, namespace: str) -> None:
    assert api.may_create(OPERATOR, "jobs", job(namespace, ownerReferences=owner("job")))[0] == 422


def test_the_operator_may_neither_change_nor_delete_jobs_of_others(
    api: Api, apiserver: ApiServer, namespace: str
) -> None:
    apiserver.create(JOBS, "job", namespace, spec=job(namespace)["spec"])
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/job"
    assert api.patch(OPERATOR, path, MERGE, {"spec": {"suspend": True}})[0] == 422
    adopted = {"metadata": {"ownerReferences": owner("job")}}
    assert api.patch(OPERATOR, path, MERGE, adopted)[0] == 422
    assert api.send("DELETE", OPERATOR, path, "application/json", {})[0] == 422


def service(namespace: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": "ddp", "namespace": namespace, "ownerReferences": owner("ddp")}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "None"} | spec}


def test_the_operator_may_make_only_headless_services(api: Api, shared_namespace: str) -> None:
    assert api.may_create(OPERATOR, "services", service(shared_namespace)) == (201, "")
    for spec in ({"externalIPs": ["10.0.0.1"]}, {"clusterIP": "10.0.0.99", "ports": [{"port": 80}]}):
        assert api.may_create(OPERATOR, "services", service(shared_namespace, **spec))[0] == 422


def test_the_operator_may_make_the_volumes_of_datasets_alone(api: Api, shared_namespace: str) -> None:
    meta = {"namespace": shared_namespace, "name": "imagenet", "uid": "u"}
    dataset = Dataset.model_validate({"metadata": meta, "spec": {"source": {"uri": "s3://bucket/"}}})
    assert api.may_create(OPERATOR, "persistentvolumes", persistent_volume(dataset)) == (201, "")
    assert api.may_create(OPERATOR, "persistentvolumeclaims", persistent_volume_claim(dataset)) == (201, "")
    labelled = HOST_PATH | {"metadata": {"name": "loot", "labels": labels_for(dataset)}}
    for body in (HOST_PATH, labelled):
        assert api.may_create(OPERATOR, "persistentvolumes", body)[0] == 422


def test_the_operator_may_make_no_account_elsewhere(api: Api, shared_namespace: str) -> None:
    for home in (NAMESPACE, shared_namespace):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": home}}
        assert api.may_create(OPERATOR, "serviceaccounts", account)[0] == 403


def test_the_operator_may_take_its_start_up_taint_off_a_node(api: Api) -> None:
    # The API server adds a taint to a new node.
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


def test_the_operator_may_register_the_figures_of_pods_at_its_own_service(api: Api) -> None:
    assert api.may_create(OPERATOR, "apiservices", api_service()) == (201, "")


@pytest.mark.parametrize(
    "registered",
    [
        api_service(group="metrics.k8s.io", version="v1beta1"),
        api_service(version="v2"),
        api_service(name="evil"),
        api_service(namespace="evil"),
    ],
    ids=["another group", "another version", "another service", "another namespace"],
)
def test_the_operator_may_register_nothing_else(api: Api, registered: dict[str, Any]) -> None:
    status, sentence = api.may_create(OPERATOR, "apiservices", registered)
    assert (status, "only figures.stoker.dev" in sentence) == (422, True)

"""Views parsed from raw objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_api import names
from stoker_operator.core.views.cluster import COMPONENT_LABEL, SIDECAR_COMPONENT, Owner, Taint, parse_node, parse_pod
from stoker_operator.core.views.resources import Resources, parse_resources, pod_requests
from tests.support.cases import cases


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}} | more


GPU = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 1}}


@cases(
    "spec, requests",
    its_largest_init_container=(
        {"initContainers": [container("3")], "containers": [container("1"), container("1")]},
        Resources(cpu_milli=3000, pods=1),
    ),
    its_sidecar_containers_beside_the_others=(
        {"initContainers": [container("1", restartPolicy="Always"), container("2")], "containers": [container("1")]},
        Resources(cpu_milli=3000, pods=1),
    ),
    a_limit_where_there_is_no_request_and_overhead=(
        {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}}}], "overhead": {"cpu": "250m"}},
        Resources(cpu_milli=1250, pods=1, extended={"nvidia.com/gpu": 2}),
    ),
    the_pod_as_a_whole_in_place_of_its_containers=(
        {"containers": [{"resources": GPU}], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "250m"}},
        Resources(cpu_milli=3250, memory=2**30, pods=1, extended={"nvidia.com/gpu": 1}),
    ),
)
def test_a_pod_asks_for(spec: dict[str, Any], requests: Resources) -> None:
    assert pod_requests(spec) == requests


def test_only_what_is_asked_for_is_compared() -> None:
    overcommitted = Resources(cpu_milli=-500, memory=100, pods=1)
    assert overcommitted.covers(Resources(memory=100, pods=1))
    assert not overcommitted.covers(Resources(cpu_milli=1))
    assert not overcommitted.covers(Resources(extended={"nvidia.com/gpu": 1}))


@given(st.lists(st.integers(0, 10**6), max_size=5))
def test_what_was_added_can_be_taken_off(amounts: list[int]) -> None:
    free = Resources(cpu_milli=10**7, extended={"gpu": 8})
    used = Resources()
    for amount in amounts:
        used = used.plus(Resources(cpu_milli=amount, extended={"gpu": 1}))
    assert free.minus(used).plus(used) == Resources(cpu_milli=10**7, extended={"gpu": 8})


def test_a_node_is_read() -> None:
    raw = {
        "metadata": {"name": "n", "uid": "u", "labels": {"gpu": "a100"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    node = parse_node(raw)
    assert (node.ready, node.schedulable, node.taints) == (True, False, (Taint("k", "", "NoSchedule"),))
    assert node.allocatable == parse_resources({"cpu": 4, "memory": 2**33}, pods=110)


@pytest.mark.parametrize(("status", "times"), [("Unknown", (False, 0.0, 60.0)), ("True", (True, 60.0, 0.0))])
def test_a_node_tells_since_when_it_is_ready_or_silent(status: str, times: tuple[bool, float, float]) -> None:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": "1970-01-01T00:01:00Z"}
    node = parse_node({"metadata": {"name": "n"}, "status": {"conditions": [condition]}})
    assert (node.ready, node.ready_since, node.not_ready_since) == times


def test_a_silent_sidecar_tells_since_when_and_no_other_pod_does() -> None:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:01:00Z"}
    owner = {"kind": "DaemonSet", "name": "stoker-sidecar", "uid": "u", "controller": True}
    meta = {"name": "s", "labels": {COMPONENT_LABEL: SIDECAR_COMPONENT}, "ownerReferences": [owner]}
    raw = {"metadata": meta, "status": {"conditions": [condition]}}
    assert parse_pod(raw).not_ready_since == 60.0
    assert parse_pod(raw | {"metadata": {"name": "other"}}).not_ready_since == 0.0


def managed_pod() -> dict[str, Any]:
    inline = {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "coco", "datasetNamespace": "team-b"}}
    return {
        "metadata": {
            "namespace": "vision",
            "name": "p",
            "labels": {names.LABEL_MANAGED: "true", names.LABEL_GANG: "job"},
            "annotations": {names.ANNOTATION_DATASETS: "imagenet:/data", names.ANNOTATION_GANG_SIZE: "4"},
            "ownerReferences": [{"kind": "Job", "name": "job", "uid": "u", "controller": True}],
        },
        "spec": {
            "schedulingGates": [{"name": names.GATE_WARM}],
            "containers": [container("1")],
            "nodeSelector": {"gpu": "a100"},
            "volumes": [{"persistentVolumeClaim": {"claimName": "imagenet"}}, {"csi": inline}, {"emptyDir": {}}],
        },
        "status": {"phase": "Pending"},
    }


def test_a_managed_pod_is_read_whole() -> None:
    pod = parse_pod(managed_pod())
    assert (pod.gated, pod.managed, pod.gang, pod.gang_size) == (True, True, "job", 4)
    assert (pod.claims, pod.volumes, pod.versions) == (("imagenet",), ("team-b/coco",), {})
    assert (pod.owner, pod.node_selector) == (Owner("Job", "job", "u"), {"gpu": "a100"})


def test_of_other_pods_only_what_capacity_needs_is_kept() -> None:
    raw = managed_pod()
    raw["metadata"]["labels"], raw["spec"]["schedulingGates"] = {"app": "web"}, []
    pod = parse_pod(raw)
    assert (pod.labels, pod.node_selector, pod.datasets) == ({}, {}, "")
    assert (pod.requests.cpu_milli, pod.uses_data) == (1000, True)


def test_the_schedulers_refusal_is_kept() -> None:
    raw = managed_pod()
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    raw["status"] = {"conditions": [refused | {"lastTransitionTime": "2026-11-21T10:00:00Z"}]}
    pod = parse_pod(raw)
    assert (pod.unschedulable, pod.unschedulable_since) == ("no room", 1795255200.0)


def test_a_gate_that_another_controller_has_is_told_apart_from_a_refusal() -> None:
    raw = managed_pod()
    raw["spec"]["schedulingGates"] = [{"name": "other"}, {"name": names.GATE_WARM}]
    raw["metadata"]["annotations"][names.ANNOTATION_HELD_SINCE] = ""
    held = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    pod = parse_pod(raw | {"status": {"conditions": [held]}})
    assert (pod.other_gates, pod.held_since, pod.unschedulable) == (("other",), 0.0, "")


def test_a_gate_does_not_hold_a_pod_that_is_being_deleted() -> None:
    raw = managed_pod()
    raw["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    assert not parse_pod(raw).gated


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "x", "\u00b2"])
def test_a_gang_size_that_is_no_number_does_not_hide_the_pod(text: str) -> None:
    annotations = {names.ANNOTATION_GANG_SIZE: text}
    meta = {"namespace": "team", "name": "pod", "labels": {names.LABEL_MANAGED: "true"}, "annotations": annotations}
    assert parse_pod({"metadata": meta}).gang_size == 0


@pytest.mark.parametrize(("written", "versions"), [("1" * 64, {"ns/coco": "1" * 64}), ("1" * 63, {}), ("latest", {})])
def test_the_version_that_a_volume_names_is_read(written: str, versions: dict[str, str]) -> None:
    csi = {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "coco", "version": written}}
    raw = {
        "metadata": {"namespace": "ns", "name": "p"},
        "spec": {"containers": [], "volumes": [{"name": "v", "csi": csi}]},
    }
    assert parse_pod(raw).versions == versions


@cases(
    "status, ports, address",
    declared_port=(
        {"podIP": "10.0.0.7"},
        [{"name": "http", "containerPort": 8081}, {"name": "peers", "containerPort": 9}],
        "10.0.0.7:9",
    ),
    IPv6_and_no_port=({"podIP": "fd00::7", "podIPs": [{"ip": "fd00::7"}, {"ip": "10.0.0.7"}]}, [], "[fd00::7]:8082"),
    no_address_yet=({}, [], ""),
)
def test_where_a_sidecar_answers_is_its_pods_address(status: Any, ports: Any, address: str) -> None:
    owner = {"kind": "DaemonSet", "name": "stoker-sidecar", "uid": "u", "controller": True}
    labels = {"app.kubernetes.io/component": "sidecar"}
    meta = {"name": "s", "namespace": "stoker", "labels": labels, "ownerReferences": [owner]}
    raw = {"metadata": meta, "spec": {"containers": [{"name": "sidecar", "ports": ports}]}, "status": status}
    assert parse_pod(raw).address == address
    assert parse_pod(raw | {"metadata": {"name": "p", "namespace": "team"}}).address == ""

"""Stoker on a cluster whose nodes, pods and services have only IPv6 addresses."""

import json
from collections.abc import Iterator
from ipaddress import IPv6Address

import pytest

from e2e.support import manifests
from e2e.support.bucket import Bucket, files
from e2e.support.tenant import eventually
from e2e.support.world import PATIENTLY, SYSTEM, Home, World, metric, temporary_home

NODES = ("node-1", "node-2")


@pytest.fixture(scope="module")
def home(six: World) -> Iterator[Home]:
    with temporary_home(six, "ipv6-only") as made:
        yield made
    six.removals.finish()


@pytest.fixture(scope="module")
def bucket(home: Home) -> Bucket:
    """Return a bucket whose Dataset was fetched by each node for a pod: by the second node from the first."""
    made = home.bucket()
    made.put(files(20, 100_000))
    home.dataset("moves", made, cache={"replicas": 0}, warm={"policy": "OnDemand"}, scheduling={"mode": "Require"})
    for node in NODES:
        pod = manifests.reading_pod(home.namespace, f"on-{node}", "moves")
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        home.apply_pod(pod)
        home.world.finished(f"on-{node}", home.namespace)
    return made


def test_no_pod_and_no_node_has_an_ipv4_address(six: World, bucket: Bucket) -> None:
    pods = [entry["ip"] for pod in six.items("pods", "-A") for entry in pod["status"].get("podIPs", [])]
    nodes = [
        entry["address"]
        for node in six.items("nodes")
        for entry in node["status"]["addresses"]
        if entry["type"] == "InternalIP"
    ]
    assert len(nodes) == len(NODES)
    assert all(IPv6Address(address) for address in [*pods, *nodes])


@pytest.mark.parametrize("node", NODES)
def test_held_pods_are_released_and_read_every_byte(home: Home, bucket: Bucket, node: str) -> None:
    assert home.read_sums(f"on-{node}") == bucket.sums()


def test_nodes_download_from_each_other(six: World, bucket: Bucket) -> None:
    rows = [row for node in NODES for row in six.get("nodecache", node)["status"]["datasets"]]
    assert sum(row.get("peerBytes", 0) for row in rows if row["name"] == "moves") > 0


def test_the_command_line_asks_each_node_through_a_port_forward(six: World, home: Home, bucket: Bucket) -> None:
    shown = json.loads(six.stoker("status", "--nodes", "moves", "-n", home.namespace, "-o", "json"))
    assert {row["node"] for row in shown} == set(NODES)


def test_the_figures_api_group_answers(six: World, home: Home, bucket: Bucket) -> None:
    wait = six.kubectl("wait", "--for=condition=Available", PATIENTLY, "apiservice/v1alpha1.figures.stoker.dev")
    assert "condition met" in wait
    answer = json.loads(
        six.kubectl("get", "--raw", f"/apis/figures.stoker.dev/v1alpha1/namespaces/{home.namespace}/podfigures")
    )
    assert answer["kind"] == "PodFiguresList"


def test_a_running_pod_is_shown_by_top(six: World, home: Home, bucket: Bucket) -> None:
    home.apply_pod(
        manifests.pod(home.namespace, "stays", "moves:/data", "while cat /data/*/*; do sleep 1; done >/dev/null")
    )
    six.wait("pod", "stays", home.namespace, lambda it: it["status"].get("phase") == "Running")
    eventually(lambda: "stays" in six.stoker("top", "--once", "-n", home.namespace), "the pod in top")


@pytest.mark.parametrize("component", ["operator", "sidecar"])
def test_metrics_are_served(six: World, component: str) -> None:
    assert all(metric(pod, "stoker_build_info") for pod in six.system_pods(component))


def test_all_pods_of_stoker_are_ready(six: World, bucket: Bucket) -> None:
    waited = six.kubectl("wait", "--for=condition=Ready", "pods", "--all", "-n", SYSTEM, PATIENTLY)
    assert "condition met" in waited

"""Hand-made volumes with long, many or duplicate attributes on every node: pods of other namespaces stay in statuses.

These attacks need no right on Stoker's own kinds, only the right to make pods.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import manifests
from e2e.support.attacked import AgentMemory, ended, restarts
from e2e.support.tenant import Canary, Tenant, eventually
from e2e.support.world import Home, World

NAME = "a" * 900_000
VOLUMES = 60  # volumes of one pod, below the limit
CROWDS = 3  # pods with that number of volumes on each node
REPORTS = 300
_SECONDS = 20.0  # seconds in which a pod of another namespace must be reported and run
_MOST_AGENT = 200 * 1000**2  # bytes


@pytest.fixture(autouse=True)
def others_go_on(world: World, canary: Canary, victim: Home, request: pytest.FixtureRequest) -> Iterator[None]:
    """During the attack, check a new pod of another namespace, the canary, and Stoker's own processes."""
    before = restarts(world), ended(world)
    with AgentMemory() as memory:
        yield
        is_told_of(world, victim, f"late-{re.sub(r'[^a-z0-9]+', '-', request.node.name)[:40].strip('-')}")
        canary.check()
    assert (restarts(world), ended(world)) == before
    print(f"the largest agent had {memory.most / 1000**2:.0f} MB")
    assert 0 < memory.most <= _MOST_AGENT


def is_told_of(world: World, home: Home, name: str) -> None:
    """Make a pod that reads the namespace's Dataset. Wait until its node's status has it and it runs."""
    began = time.monotonic()
    home.apply_pod(manifests.pod(home.namespace, name, "private:/data", "ls /data && sleep 600"))
    eventually(lambda: (home.namespace, name) in mounts(world), f"the mount of {name} in a node's status", _SECONDS)
    left = began + _SECONDS - time.monotonic()
    world.wait("pod", name, home.namespace, lambda it: it.get("status", {}).get("phase") == "Running", left)


def mounts(world: World) -> set[tuple[str, str]]:
    """Return namespace and name of the pods in the statuses of all nodes."""
    rows = (row for node in world.items("nodecaches") for row in node.get("status", {}).get("mounts", []))
    return {(row["podNamespace"], row["pod"]) for row in rows}


def on_every_node(tenant: Tenant, name: str, volumes: list[dict[str, str]]) -> manifests.Object:
    """Make a DaemonSet whose pods have inline volumes with these attributes."""
    labels = {"app": name}
    spec: dict[str, Any] = tenant.pod(name, "")["spec"] | {"restartPolicy": "Always"}
    spec["tolerations"] = [{"operator": "Exists"}]
    spec["volumes"] = [
        {"name": f"v{number}", "csi": {"driver": "csi.stoker.dev", "readOnly": True, "volumeAttributes": attributes}}
        for number, attributes in enumerate(volumes)
    ]
    # The kubelet mounts only volumes that a container uses.
    used = [{"name": f"v{number}", "mountPath": f"/v/{number}"} for number in range(len(volumes))]
    spec["containers"][0]["volumeMounts"] = used
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": tenant.namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def refused_on_every_node(world: World, tenant: Tenant, words: str) -> None:
    """Wait until an event of a tenant's pod on each node has these words."""
    nodes = {node["metadata"]["name"] for node in world.items("nodecaches")}

    def is_refused() -> bool:
        pods = {
            pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in world.items("pods", "-n", tenant.namespace)
        }
        events = world.items("events", "-n", tenant.namespace)
        told = [one["involvedObject"]["name"] for one in events if words in one.get("message", "")]
        return {pods.get(name) for name in told} >= nodes

    eventually(is_refused, f"the sentence {words!r} on each node", 90.0)


def test_names_of_900_000_characters_are_refused_and_hide_nobody(tenant: Tenant, world: World) -> None:
    tenant.create(*(on_every_node(tenant, f"long-{number}", [{"dataset": NAME}]) for number in range(2)))
    refused_on_every_node(world, tenant, "are allowed: shorten them")


def test_hundreds_of_legal_names_of_datasets_that_do_not_exist_hide_nobody(tenant: Tenant, world: World) -> None:
    for crowd in range(CROWDS):
        names = [{"dataset": f"c{crowd}-{number}-" + "b" * 240} for number in range(VOLUMES)]
        tenant.create(on_every_node(tenant, f"many-{crowd}", names))
    nodes = len(world.items("nodecaches"))
    eventually(
        lambda: sum(namespace == tenant.namespace for namespace, _ in mounts(world)) >= nodes * CROWDS,
        "rows of all pods of the crowd",
        90.0,
    )


def test_hundreds_of_report_volumes_of_a_pod_are_refused_but_for_one(tenant: Tenant, world: World) -> None:
    tenant.create(on_every_node(tenant, "reports", [{"report": "true", "dataset": "none"}] * REPORTS))
    refused_on_every_node(world, tenant, "has a report volume already")

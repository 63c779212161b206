"""A tenant's pod holds thousands of silent connections to all of Stoker's ports, and reconnects when one is closed.

The cluster's network enforces no NetworkPolicy, so the pod reaches the ports. Their own limits must be enough.
"""

import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from e2e.support.attacked import restarts
from e2e.support.built import IMAGE
from e2e.support.manifests import Object
from e2e.support.tenant import Canary, Tenant
from e2e.support.world import World
from tests.support import silent_clients

CONNECTIONS = 2400
PORTS = {"sidecar": (8081, 8082), "operator": (8080, 8084, 9443)}
PROBES_FAIL = 60.0  # seconds after which the kubelet restarts a container with failing probes


def addresses(world: World) -> list[str]:
    """Return host:port of every port that pods can reach."""
    return [
        f"{pod['status']['podIP']}:{port}"
        for component, ports in PORTS.items()
        for pod in world.system_pods(component)
        for port in ports
    ]


@pytest.fixture
def flood(world: World, tenant: Tenant) -> Iterator[Object]:
    """Run the pod until the end of the test."""
    pod = tenant.pod("silent", "")
    program = Path(silent_clients.__file__).read_text(encoding="utf-8")
    container = pod["spec"]["containers"][0]
    container["image"] = IMAGE
    container["command"] = ["python3", "-c", program, str(CONNECTIONS), "-", *addresses(world)]
    tenant.create(pod)
    world.wait("pod", "silent", tenant.namespace, lambda it: "all dialed" in dialed(world, it))
    yield pod
    world.kubectl("delete", "pod", "silent", "-n", tenant.namespace, "--wait=false")


def dialed(world: World, pod: Object) -> str:
    is_running = pod.get("status", {}).get("phase") == "Running"
    return world.logs("silent", pod["metadata"]["namespace"]) if is_running else ""


def test_thousands_of_silent_connections_delay_nobody(world: World, canary: Canary, flood: Object) -> None:
    before, began = restarts(world), time.monotonic()
    while time.monotonic() - began < PROBES_FAIL:
        canary.check()
    assert restarts(world) == before
    ready = chain.from_iterable(
        pod["status"]["containerStatuses"] for component in PORTS for pod in world.system_pods(component)
    )
    assert all(one["ready"] for one in ready)

"""The start-up taint, against the in-memory API server."""

from typing import Any

import pytest

from stoker_api import names
from stoker_kube.events import EventRecorder
from stoker_kube.resources import NODES
from stoker_operator.core.views import parse_node, parse_pod
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.startup_taints import StartupTaints
from stoker_operator.writer import Writer
from tests.fakes.kube import FakeKube
from tests.fakes.sidecar import DAEMON_SET

OURS = {"key": names.TAINT_AGENT_NOT_READY, "effect": "NoSchedule"}
OTHER = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


class World:
    """A node with taints, and the sidecar's pod on it."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.state = ClusterState("stoker")
        self.now = 0.0
        writer = Writer(self.kube)
        self.taints = StartupTaints(writer, self.state, EventRecorder(self.kube, "test"), lambda: self.now)

    async def add_node(self, *taints: dict[str, Any]) -> None:
        raw = await self.kube.create(NODES, {"metadata": {"name": "a"}, "spec": {"taints": list(taints)}})
        self.state.nodes.put("a", parse_node(raw))

    def add_sidecar(self, namespace: str = "stoker", *, ready: bool = True) -> None:
        labels = {"app.kubernetes.io/component": "sidecar"}
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        meta: dict[str, Any] = {"name": "sidecar", "namespace": namespace, "uid": "s", "labels": labels}
        meta["ownerReferences"] = [DAEMON_SET]
        pod = parse_pod({"metadata": meta, "spec": {"nodeName": "a"}, "status": {"conditions": conditions}})
        self.state.pods.put(pod.key, pod)

    async def left(self) -> list[dict[str, Any]]:
        """Run a pass; the taints that the node has after it."""
        await self.taints.reconcile()
        await self.taints.work.settled()
        return list((await self.kube.get(NODES, "a"))["spec"]["taints"])


@pytest.fixture
def world() -> World:
    return World()


async def test_it_is_taken_off_once_the_sidecar_is_ready_and_others_stay(world: World) -> None:
    await world.add_node(OURS, OTHER, OURS | {"effect": "NoExecute"})
    world.add_sidecar()
    assert await world.left() == [OTHER]


async def test_it_stays_while_the_sidecar_is_not_ready(world: World) -> None:
    await world.add_node(OURS)
    world.add_sidecar(ready=False)
    assert await world.left() == [OURS]


async def test_a_pod_of_another_namespace_is_no_sidecar(world: World) -> None:
    await world.add_node(OURS)
    world.add_sidecar("evil")
    assert await world.left() == [OURS]


@pytest.mark.expected_logs("taint of Node a failed")
async def test_a_taint_that_moved_meanwhile_is_not_mistaken_for_ours(world: World) -> None:
    await world.add_node(OURS, OTHER)
    world.add_sidecar()
    await world.kube.patch(NODES, "a", {"spec": {"taints": [OTHER, OURS]}})
    assert await world.left() == [OTHER, OURS]

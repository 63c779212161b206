"""The start-up taint, against the in-memory API server."""

from typing import Any

import pytest

from stoker_api import names
from stoker_kube.resources import NODES
from stoker_operator.core.views.cluster import parse_node
from stoker_operator.reconcilers.startup_taints import StartupTaints
from tests.unit.stoker_operator.builders import sidecar_pod
from tests.unit.stoker_operator.operator_world import OperatorWorld

OURS = {"key": names.TAINT_AGENT_NOT_READY, "effect": "NoSchedule"}
OTHER = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


class World(OperatorWorld):
    """A node with taints, and the sidecar's pod on it."""

    def __init__(self) -> None:
        super().__init__()
        self.taints = StartupTaints(self.writer, self.state, self.events, self.clock)

    async def add_node(self, *taints: dict[str, Any]) -> None:
        raw = await self.kube.create(NODES, {"metadata": {"name": "a"}, "spec": {"taints": list(taints)}})
        self.state.nodes.put("a", parse_node(raw))

    def add_sidecar(self, namespace: str = "stoker", *, ready: bool = True) -> None:
        pod = sidecar_pod("a", namespace, ready=ready)
        self.state.pods.put(pod.key, pod)

    async def left(self) -> list[dict[str, Any]]:
        """Run a pass. Return the remaining taints of the node."""
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

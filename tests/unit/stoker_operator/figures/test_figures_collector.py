"""The operator asks a node once for all callers, and does not keep asking a silent node."""

import asyncio
from typing import Any

from stoker_kube.resources import NODE_CACHES, PODS
from stoker_operator.core.pod_figures.figures_api import Asked
from stoker_operator.figures.collector import LIST_SECONDS, SILENT_SECONDS, WORD_SECONDS, FiguresCollector
from stoker_operator.figures.node_client import SidecarAddress, SilentNodeError
from tests.fakes.kube import FakeKube
from tests.fakes.volumes import Clock

SIDECAR = {"app.kubernetes.io/name": "stoker", "app.kubernetes.io/component": "sidecar"}


class Node:
    """A node that answers. With ``trouble`` it does not."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.trouble = ""
        self.asked: list[SidecarAddress] = []

    async def ask(self, node: str, where: SidecarAddress) -> dict[str, Any]:
        self.asked.append(where)
        await asyncio.sleep(0)
        if self.trouble:
            raise SilentNodeError(self.trouble)
        return {"node": node, "workloads": self.rows}


async def pod(kube: FakeKube, namespace: str, name: str, node: str, **status: Any) -> dict[str, Any]:
    labels = SIDECAR if namespace == "stoker" else {}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
    made = await kube.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, namespace)
    body = {"status": {"phase": "Running"} | status}
    await kube.patch(PODS, name, body, namespace, subresource="status")
    return {"pod": f"{namespace}/{name}", "uid": made["metadata"]["uid"], "phase": "Training"}


async def world(**sidecar: Any) -> tuple[FakeKube, Node, Clock, FiguresCollector]:
    kube, node, clock = FakeKube(), Node(), Clock()
    await pod(kube, "stoker", "sidecar-0", "node-1", **({"podIP": "10.0.0.7"} | sidecar))
    node.rows = [await pod(kube, "vision", "a", "node-1"), await pod(kube, "nlp", "b", "node-1")]
    return kube, node, clock, FiguresCollector(kube, "stoker", node, clock, clock)


async def test_callers_of_all_namespaces_share_one_request_to_a_node() -> None:
    _, node, _, collector = await world()
    found = await asyncio.gather(*(collector.figures(Asked(space, "")) for space in ("vision", "nlp", "vision") * 10))
    assert {tuple(row.metadata.name for row in rows) for rows in found} == {("a",), ("b",)}
    assert node.asked == [SidecarAddress("10.0.0.7", 8082)]


async def test_a_shared_answer_has_its_age_and_is_asked_for_again_when_it_is_old() -> None:
    _, node, clock, collector = await world()
    ages = []
    for step in (0.0, WORD_SECONDS - 0.1, WORD_SECONDS):
        clock.now += step
        (row,) = await collector.figures(Asked("vision", "a"))
        ages.append(row.age_seconds)
    assert (ages, len(node.asked)) == ([0.0, round(WORD_SECONDS - 0.1, 1), 0.0], 2)


async def test_a_silent_node_is_shown_by_its_nodecache_and_asked_again_later() -> None:
    kube, node, clock, collector = await world()
    await kube.create(NODE_CACHES, {"metadata": {"name": "node-1"}, "spec": {}})
    await kube.patch(NODE_CACHES, "node-1", {"status": {"workloads": node.rows}}, subresource="status")
    node.trouble = "its sidecar did not answer within 1 s"
    for _ in range(5):
        (row,) = await collector.figures(Asked("vision", ""))
        assert (row.workload.phase, row.message) == ("Training", f"node node-1: {node.trouble}")
        clock.now += WORD_SECONDS
    assert len(node.asked) == 1
    node.trouble, clock.now = "", clock.now + SILENT_SECONDS
    (row,) = await collector.figures(Asked("vision", ""))
    assert (row.message, len(node.asked)) == ("", 2)


async def test_a_sidecar_that_is_not_there_is_not_asked() -> None:
    _, node, _, collector = await world(podIP="")
    assert await collector.figures(Asked("vision", "")) == []
    assert node.asked == []


async def test_a_pod_that_was_made_anew_takes_no_figures_of_the_one_before() -> None:
    kube, _, clock, collector = await world()
    await kube.delete(PODS, "a", "vision")
    await pod(kube, "vision", "a", "node-1")
    clock.now += LIST_SECONDS
    assert await collector.figures(Asked("vision", "")) == []

"""Direct queries of `stoker status --nodes`."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.node_answer import NodeAnswer
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.errors import UNREACHABLE
from stoker_cli.main import main
from stoker_cli.nodes import node_answers as node_status
from stoker_cli.nodes.node_answers import AT_ONCE, NodeQueryResult, by_node, query_nodes
from stoker_kube.errors import Forbidden, NotFound, Unavailable
from tests.unit.stoker_cli.builders import connect_to, node_cache

DIGITS = {"namespace": "vision", "name": "digits", "uid": "u1", "phase": "Warm", "bytes": 100, "warmBytes": 100}


def pod(node: str, name: str = "", *, ready: bool = True, deleting: bool = False) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    metadata = {"namespace": "stoker-system", "name": name or f"sidecar-{node}"}
    metadata |= {"deletionTimestamp": "2026-11-21T10:00:00Z"} if deleting else {}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": status}


def answer(node: str, *datasets: dict[str, Any]) -> NodeAnswer:
    return NodeAnswer.model_validate({"node": node, "datasets": datasets, "availableBytes": 2**30})


class AnsweringNodes:
    """A cluster with the answers, errors or silence (None) of sidecars by node."""

    namespace = "vision"

    def __init__(self, **answers: NodeAnswer | Exception | None) -> None:
        self.answers = answers
        self.pods: list[dict[str, Any]] = [pod(node) for node in answers]
        self.caches = [node_cache(node) for node in answers]
        self.asked: list[str] = []
        self.at_once = self.most = 0

    async def dataset(self, name: str) -> Dataset:
        metadata = {"namespace": "vision", "name": name}
        return Dataset.model_validate({"metadata": metadata, "spec": {"source": {"uri": "s3://b/"}}})

    async def readable_node_caches(self) -> list[NodeCache]:
        return self.caches

    async def sidecars(self) -> Sequence[dict[str, Any]]:
        return self.pods

    async def query_node(self, asked: Mapping[str, Any], query: str) -> NodeAnswer:
        self.asked.append(query)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(0)
            found = self.answers[asked["spec"]["nodeName"]]
            if found is None:
                await asyncio.Event().wait()
            if isinstance(found, Exception):
                raise found
            assert found is not None
            return found
        finally:
            self.at_once -= 1


def test_omitted_pods_of_a_node_are_counted_in_its_row() -> None:
    row = NodeQueryResult("a", answer("a").model_copy(update={"ended_left_out": 3})).row()
    assert row[-1] == "ok; 3 pods that ended in the last hour omitted"


async def troubles(**answers: NodeAnswer | Exception | None) -> dict[str, str]:
    nodes = await query_nodes(AnsweringNodes(**answers), "", 0.05, lambda done, of: None)
    return {one.node: one.trouble for one in nodes}


async def test_a_failed_query_has_a_reason_and_delays_no_other_node() -> None:
    told = await troubles(
        a=answer("a"),
        gone=NotFound(404, "NotFound", "x"),
        silent=None,
        locked=Forbidden(403, "Forbidden", "x"),
        down=Unavailable(0, "Unreachable", "dial tcp\n10.0.0.1: refused\x1b[2J"),
        odd=ValueError("x"),
        liar=answer("a"),
    )
    assert told == {
        "a": "",
        "gone": "the sidecar pod is gone, or too old for --nodes",
        "silent": "no answer within 0.05 s (--node-timeout)",
        "locked": "forbidden: needs get and create on pods/portforward in its namespace",
        "down": "dial tcp 10.0.0.1: refused?[2J",
        "odd": "invalid answer: the sidecar may have another version",
        "liar": "the answer is from another node",
    }


async def test_a_node_without_a_sidecar_is_a_row_too() -> None:
    nodes = AnsweringNodes(a=answer("a"), b=answer("b"))
    nodes.pods = nodes.pods[:1]
    found = {one.node: one.trouble for one in await query_nodes(nodes, "", 1.0, lambda done, of: None)}
    assert found["a"] == ""
    assert "no sidecar pod" in found["b"]


async def test_concurrent_queries_are_limited() -> None:
    nodes = AnsweringNodes(**{f"n{number}": answer(f"n{number}") for number in range(3 * AT_ONCE)})
    seen: list[tuple[int, int]] = []
    await query_nodes(nodes, "", 60.0, lambda done, of: seen.append((done, of)))
    assert nodes.most == AT_ONCE
    assert seen[-1] == (3 * AT_ONCE, 3 * AT_ONCE)


def test_at_an_upgrade_the_sidecar_that_is_ready_is_asked() -> None:
    pods = [pod("a", "new", ready=False), pod("a", "old"), pod("a", "newer", ready=False), pod("b", deleting=True)]
    assert {node: one["metadata"]["name"] for node, one in by_node(pods).items()} == {"a": "old"}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> AnsweringNodes:
    known = AnsweringNodes(a=answer("a", DIGITS), b=answer("b"), c=NotFound(404, "NotFound", "x"))

    connect_to(monkeypatch, known, node_status)
    return known


def stoker(*words: str) -> Result:
    return CliRunner().invoke(main, ["status", "--nodes", *words])


def test_each_node_is_a_line(nodes: AnsweringNodes) -> None:
    result = stoker()
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NODE", "a", "b", "c"]
    assert lines[1].split()[-1] == "ok"
    assert "too old for --nodes" in lines[3]
    assert "2 of 3 nodes answered" in result.stderr


def test_nodes_without_the_dataset_are_counted(nodes: AnsweringNodes) -> None:
    result = stoker("digits")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["NODE", "a", "c"]
    assert "2 of 3 nodes answered; 1 without the Dataset." in result.stderr
    assert set(nodes.asked) == {"dataset=vision%2Fdigits"}


def test_the_json_has_every_node(nodes: AnsweringNodes) -> None:
    told = json.loads(stoker("-o", "json").stdout)
    assert [(row["node"], row["answered"]) for row in told] == [("a", True), ("b", True), ("c", False)]
    assert told[0]["status"]["datasets"][0]["warmBytes"] == 100
    assert told[2]["status"] is None


def test_the_command_fails_if_no_node_answers(nodes: AnsweringNodes) -> None:
    nodes.answers = dict.fromkeys(nodes.answers, Unavailable(0, "x", "no route"))
    result = stoker()
    assert result.exit_code == UNREACHABLE
    assert "No node answered: no route." in result.stderr

"""The agent as a whole, in one process with an API server in memory and a fetcher that only listens."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_api.node_caches.peers import PEER_NAME
from stoker_kube.api import Object
from stoker_kube.errors import Unavailable
from stoker_kube.resources import NODE_CACHES, SECRETS, TUNING_PROFILES
from stoker_sidecar.wire.config.peer_tls import FILE, left
from stoker_sidecar.wire.credentials import StaticCredentials
from tests.fakes.fetcher import FetcherForAgent
from tests.fakes.kube import FakeKube
from tests.support.agent_node import DATASET, DIGEST, RunningAgent, agent_node, progress, row
from tests.support.peers import certify, new_authority
from tests.support.waiting import eventually_async


@pytest.fixture
async def node(kube: FakeKube, folder: Path) -> AsyncIterator[RunningAgent]:
    async with agent_node(kube, folder) as one:
        yield one


async def test_a_planned_dataset_reaches_the_fetcher_with_its_keys(node: RunningAgent) -> None:
    await node.plan(DATASET)
    await node.until(lambda: "u1" in node.fetcher.configured)
    order = node.fetcher.configured["u1"]
    assert order.credentials == StaticCredentials("id", "key")
    assert order.dataset["source"]["uri"] == "s3://bucket/digits/"


async def test_a_dataset_too_large_to_be_told_of_keeps_no_other_from_the_fetcher(node: RunningAgent) -> None:
    huge = DATASET | {"uid": "huge", "name": "huge", "warmPaths": ["x" * 1000] * 5000}
    await node.plan(huge, DATASET)
    await node.until(lambda: "u1" in node.fetcher.configured)
    node.fetcher.say(progress(row(phase=NodePhase.WARM, files=10, warm_files=10)))
    await node.until(lambda: any(one.get("phase") == "Warm" for one in node.status.get("datasets", [])))
    assert "huge" not in node.fetcher.configured


async def test_the_fetcher_s_progress_reaches_the_status(node: RunningAgent) -> None:
    await node.plan(DATASET)
    node.fetcher.say(progress(row(phase=NodePhase.WARM, files=10, warm_files=10)))
    await node.until(lambda: node.row.get("phase") == "Warm" and "address" in node.status)
    assert node.row["mode"] == "native"
    assert node.status["capacity"] == "100.0 GiB"
    assert node.status["conditions"][0]["status"] == "True"
    assert node.status["address"].startswith("127.0.0.1:")


async def test_the_profile_that_a_dataset_has_is_in_the_status_and_follows_its_changes(node: RunningAgent) -> None:
    rules: Object = {"rules": [{"id": "shards", "actions": [{"type": "prefetch"}]}]}
    body: Object = {"metadata": {"name": "fast"}, "spec": rules}
    await node.kube.apply(TUNING_PROFILES, body, field_manager="admin")
    await node.plan(DATASET | {"tuning": {"profile": "fast"}})
    row = {"profile": "fast", "generation": 1, "datasets": 1, "message": ""}
    await node.until(lambda: node.status.get("tuningProfiles") == [row])
    await node.kube.apply(
        TUNING_PROFILES, body | {"spec": rules | {"settings": {"level": "Basic"}}}, field_manager="admin"
    )
    await node.until(lambda: node.status.get("tuningProfiles") == [row | {"generation": 2}])


async def test_a_dataset_that_left_the_plan_is_removed_and_its_row_goes(node: RunningAgent) -> None:
    await node.plan(DATASET)
    node.fetcher.say(progress(row(phase=NodePhase.WARM)))
    await node.until(lambda: node.row.get("phase") == "Warm")
    await node.plan()
    await node.until(lambda: node.fetcher.removed == ["u1"])
    node.fetcher.say(progress())
    await node.until(lambda: not node.row)


async def test_a_folder_that_no_plan_knows_is_removed(node: RunningAgent) -> None:
    node.fetcher.say(progress(orphans=("old",)))
    await node.plan()
    await node.until(lambda: node.fetcher.removed == ["old"])


async def test_a_new_plan_hears_of_what_is_on_the_disk_before_anything_is_removed(node: RunningAgent) -> None:
    node.fetcher.say(progress(orphans=("u1", "old")))
    await node.plan(keepUnlisted=True)
    await node.until(lambda: node.status.get("inventory") is True)
    told = [(one["uid"], one["retained"]) for one in node.status["datasets"]]
    assert (told, node.fetcher.removed) == ([("old", [DIGEST]), ("u1", [DIGEST])], [])
    await node.plan(DATASET)
    await node.until(lambda: node.fetcher.removed == ["old"])
    await node.until(lambda: "u1" in node.fetcher.configured)


async def test_a_lost_plan_removes_nothing(node: RunningAgent) -> None:
    await node.plan(DATASET)
    await node.until(lambda: "u1" in node.fetcher.configured)
    base = await base_of(node)
    await node.kube.delete(NODE_CACHES, "node-1")
    node.fetcher.say(progress(row(phase=NodePhase.WARM, warm_files=7)))
    async with aiohttp.ClientSession(base) as session:

        async def is_shown() -> bool:
            return "} 7.0" in await (await session.get("/metrics")).text()

        await eventually_async(is_shown)  # the agent must have seen it
    assert node.fetcher.removed == []


async def test_a_fetcher_that_comes_back_is_told_everything_again(node: RunningAgent) -> None:
    await node.plan(DATASET)
    await node.until(lambda: "u1" in node.fetcher.configured)
    await node.fetcher.stop()
    again = FetcherForAgent()
    await again.start(node.folder / "fetcher.sock")
    await node.until(lambda: "u1" in again.configured)
    await again.stop()


async def test_an_agent_that_comes_back_does_not_make_a_warm_node_look_empty(kube: FakeKube, folder: Path) -> None:
    async with agent_node(kube, folder) as first:
        await first.plan(DATASET)
        first.fetcher.say(progress(row(phase=NodePhase.WARM, files=10, warm_files=10)))
        await first.until(lambda: first.row.get("phase") == "Warm")
    async with agent_node(kube, folder) as second:
        second.fetcher.say(progress(orphans=("u1",)))
        await second.until(lambda: "u1" in second.fetcher.configured)
        assert second.row["phase"] == "Warm"
        assert second.row["warmFiles"] == 10
        assert second.fetcher.removed == []


async def test_an_api_server_that_comes_back_gets_the_newest_status(node: RunningAgent) -> None:
    await node.plan(DATASET)
    node.fetcher.say(progress(row(phase=NodePhase.WARMING, warm_files=1)))
    await node.until(lambda: node.row.get("phase") == "Warming")
    node.kube.outage = Unavailable(0, "Unreachable", "Connection refused.")
    node.kube.break_connections()
    node.fetcher.say(progress(row(phase=NodePhase.WARM, warm_files=10)))
    node.kube.outage = None
    await node.until(lambda: node.row.get("phase") == "Warm")


async def test_a_missing_secret_is_told_to_the_fetcher_as_a_sentence(node: RunningAgent) -> None:
    await node.kube.delete(SECRETS, "s3", "vision")
    await node.plan(DATASET)
    await node.until(lambda: "u1" in node.fetcher.configured)
    credentials = node.fetcher.configured["u1"].credentials
    assert getattr(credentials, "reason", "") == "SecretNotFound"


async def base_of(node: RunningAgent) -> str:
    await node.until(lambda: "address" in node.status)
    return f"http://127.0.0.1:{node.http_port}"


def write_manifest(node: RunningAgent) -> None:
    version = node.folder / "cache-root" / "datasets" / "u1" / "versions" / DIGEST
    version.mkdir(parents=True)
    (version / "manifest.sqlite").write_bytes(b"SQLite format 3")


async def test_http_serves_health_and_metrics_and_no_manifests(node: RunningAgent) -> None:
    await node.plan(DATASET)
    node.fetcher.say(progress(row(phase=NodePhase.WARMING, warm_files=3)))
    await node.until(lambda: node.row.get("phase") == "Warming")
    write_manifest(node)
    async with aiohttp.ClientSession(await base_of(node)) as session:
        assert (await session.get("/healthz")).status == 200
        assert (await session.get("/readyz")).status == 200
        metrics = await (await session.get("/metrics")).text()
        assert 'stoker_dataset_warm_files{dataset="digits",namespace="vision"} 3.0' in metrics
        assert (await session.get(f"/manifests/u1/{DIGEST}")).status == 404


async def test_rules_and_history_are_for_those_who_reach_the_pods_loopback_address(node: RunningAgent) -> None:
    await node.plan(DATASET)
    await node.until(lambda: "u1" in node.fetcher.configured and "hardware" in node.status and bool(node.row))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{node.http_port}") as session:
        totals = await (await session.get("/ml/metrics")).json()
        own = ("/ml/rules", "/ml/history", "/node/status")
        assert [(await session.get(path)).status for path in own] == [404, 404, 404]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{node.learning_port}") as session:
        rules = await (await session.get("/ml/rules")).json()
        history = await (await session.get("/ml/history")).json()
        answer = await (await session.get("/node/status?dataset=vision/digits")).json()
        other = await (await session.get("/node/status?dataset=vision/other")).json()
    assert (answer["node"], [row["uid"] for row in answer["datasets"]], other["datasets"]) == ("node-1", ["u1"], [])
    assert (totals["totalWorkloads"], history) == (0, {"history": []})
    assert totals["hardware"] == node.status["hardware"]
    assert any(rule["layer"] == "built-in" for rule in rules["rules"])


async def test_other_nodes_are_given_manifests(node: RunningAgent) -> None:
    await node.plan(DATASET)
    await certify(node.kube, "node-1", new_authority())
    await node.until(lambda: "address" in node.status and (node.folder / FILE).exists())
    write_manifest(node)
    found = left(node.folder)
    assert found is not None
    connector = aiohttp.TCPConnector(ssl=found.client_context())
    async with aiohttp.ClientSession(f"https://{node.status['address']}", connector=connector) as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(path, server_hostname=PEER_NAME) as answer:
                return answer.status, await answer.text()

        assert await get(f"/manifests/u1/{DIGEST}") == (200, "SQLite format 3")
        absent = "version eeeeeeeeeeee of dataset u1 is not on this node: ask another one\n"
        assert await get(f"/manifests/u1/{'e' * 64}") == (404, absent)
        assert (await get(f"/manifests/..%2F..%2Fetc/{DIGEST}"))[0] == 400
        assert (await get("/metrics"))[0] == 404


async def test_a_node_without_its_fetcher_is_not_ready(kube: FakeKube, folder: Path) -> None:
    async with agent_node(kube, folder) as node:
        await node.plan(DATASET)
        await node.until(lambda: "u1" in node.fetcher.configured)
        base = await base_of(node)
        await node.fetcher.stop()
        async with aiohttp.ClientSession(base) as session:

            async def is_unready() -> bool:
                return (await session.get("/readyz")).status != 200

            await eventually_async(is_unready)

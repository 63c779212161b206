"""Prometheus's own programs read the metrics of operator and sidecar, with the chart's ServiceMonitors."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import aiohttp
import pytest
import yaml

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_operator import metrics
from stoker_operator.metrics import HeldPods
from stoker_operator.processes.health import HealthServer
from stoker_sidecar.wire.fetcher_protocol import FETCH_ERRORS, FETCHED_BYTES, PACKED_BYTES, Count, Progress
from tests.fakes.fetcher import GIB
from tests.fakes.kube import FakeKube
from tests.support.agent_node import DATASET, RunningAgent, agent_node, row
from tests.support.chart import CHART, FULL_VALUES, of_kind, render
from tests.support.prometheus import Prometheus, Target, lint, prometheus
from tests.support.waiting import SECONDS_OF_PROCESSES, eventually_async

COUNTS = (
    Count("u1", FETCHED_BYTES, "", 7),
    Count("u1", FETCH_ERRORS, "Throttled", 1),
    Count("u1", PACKED_BYTES, "", 0),
)


@pytest.fixture
async def operator() -> AsyncIterator[HealthServer]:
    """Serve the operator's metrics, with one gated pod and one released pod."""
    for gauge in (metrics.HELD, metrics.OBJECTS, metrics.DATASETS, metrics.LATE, metrics.FAILING):
        gauge.clear()  # operators of other tests in this process leave their last values
    HeldPods().hold("vision/p", Reason.WAITING_FOR_DATA)
    metrics.HOLD_SECONDS.labels(Reason.RELEASED.value).observe(3.0)
    metrics.WARM_SECONDS.observe(40.0)
    server = HealthServer("operator", lambda: "", "127.0.0.1", 0)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def sidecar() -> AsyncIterator[RunningAgent]:
    """Run an agent whose fetcher reports figures of one Dataset."""
    # A short path: names of unix sockets have at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="sk") as short:
        async with agent_node(FakeKube(), Path(short)) as node:
            await node.plan(DATASET | {"source": {"uri": "s3://bucket/digits/"}})
            rows = (row(phase=NodePhase.WARMING, files=9, bytes=900, warm_files=3),)
            node.fetcher.say(Progress(rows, GIB, 100 * GIB, 50 * GIB, counts=COUNTS))
            await node.until(lambda: node.row.get("phase") == "Warming")
            yield node


@pytest.fixture
async def server(sidecar: RunningAgent, operator: HealthServer, tmp_path: Path) -> AsyncIterator[Prometheus]:
    """Run Prometheus with the chart's ServiceMonitors, until it has scraped both targets."""
    monitors = {one["metadata"]["name"]: one for one in of_kind(render(FULL_VALUES), "ServiceMonitor")}
    targets = (
        Target(monitors["stoker-operator"], operator.port, "stoker-operator-0", "node-0"),
        Target(monitors["stoker-sidecar"], sidecar.http_port, "stoker-sidecar-x", "node-1"),
    )
    with prometheus(tmp_path, targets) as running_server:
        await eventually_async(lambda: scraped(running_server, len(targets)), SECONDS_OF_PROCESSES)
        yield running_server


async def scraped(server: Prometheus, targets: int) -> bool:
    try:
        return len(await asyncio.to_thread(server.query, "up == 1")) == targets
    except (URLError, OSError):
        return False  # it does not answer at first


async def ask(server: Prometheus, expression: str) -> list[dict[str, str]]:
    """Return the labels of the series that match."""
    return [series["metric"] for series in await asyncio.to_thread(server.query, expression)]


def last(name: str) -> str:
    """Return the expression of the last values, even if a later scrape of a busy target timed out."""
    return f"last_over_time({name}[5m])"


async def exposed(port: int) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return await answer.text()


async def test_promtool_accepts_the_metrics_of_operator_and_sidecar(
    sidecar: RunningAgent, operator: HealthServer
) -> None:
    assert lint(await exposed(operator.port)) == ""
    assert lint(await exposed(sidecar.http_port)) == ""


async def test_the_namespace_of_a_dataset_stays_a_label_beside_the_node(server: Prometheus) -> None:
    (labels,) = await ask(server, last("stoker_dataset_files"))
    assert (labels["namespace"], labels["dataset"], labels["node"]) == ("vision", "digits", "node-1")
    assert "exported_namespace" not in labels


async def test_versions_processes_and_held_pods_are_known(server: Prometheus) -> None:
    builds = await ask(server, last("stoker_build_info"))
    assert {(one["component"], one["node"]) for one in builds} == {("operator", "node-0"), ("sidecar", "node-1")}
    assert {one["job"] for one in await ask(server, last("process_resident_memory_bytes"))} == {
        "stoker-operator",
        "stoker-sidecar",
    }
    (held,) = await ask(server, last("stoker_held_pods") + " == 1")
    assert (held["reason"], held["namespace"]) == ("WaitingForData", "stoker-system")


async def test_unused_features_have_no_series(server: Prometheus) -> None:
    assert await ask(server, last("stoker_fetched_bytes_total"))
    for unused in ("stoker_packed_bytes_total", "stoker_dataset_pinned_bytes", "stoker_dataset_path_bytes"):
        assert not await ask(server, last(unused)), unused


async def test_a_warming_node_without_a_byte_raises_that_alert_alone(server: Prometheus) -> None:
    groups = yaml.safe_load((CHART / "alerts" / "stoker.yaml").read_text())["groups"]
    of_nodes = [group for group in groups if group["name"] in ("stoker-nodes", "stoker-datasets")]
    rules = {rule["alert"]: rule["expr"] for group in of_nodes for rule in group["rules"]}
    stalled = rules.pop("StokerWarmUpStalled")
    assert await eventually_async(lambda: ask(server, stalled), SECONDS_OF_PROCESSES)
    assert not [alert for alert, expression in rules.items() if await ask(server, expression)]


async def test_prometheus_accepts_every_query_of_the_dashboard(server: Prometheus) -> None:
    dashboard: dict[str, Any] = json.loads((CHART / "dashboards" / "stoker.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for expression in expressions:
        await ask(server, expression)
    assert expressions

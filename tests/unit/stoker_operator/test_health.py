"""Health, readiness and metrics over HTTP."""

import json

import aiohttp

from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.workload_totals import WorkloadTotals, workload_totals
from stoker_operator.processes.health import HealthServer


async def answers(missing: str, path: str, *rows: NodeWorkload) -> tuple[int, str]:
    return await ask(HealthServer("operator", lambda: missing, "127.0.0.1", 0, lambda: workload_totals(rows)), path)


async def ask(server: HealthServer, path: str) -> tuple[int, str]:
    await server.start()
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as answer:
            return answer.status, await answer.text()
    finally:
        await server.stop()


async def test_it_is_healthy_before_it_is_ready() -> None:
    assert await answers("the Datasets are not known yet", "/healthz") == (200, "ok")
    assert await answers("the Datasets are not known yet", "/readyz") == (503, "the Datasets are not known yet")
    assert await answers("", "/readyz") == (200, "ok")


async def test_metrics_are_served() -> None:
    status, text = await answers("", "/metrics")
    assert status == 200
    assert 'stoker_build_info{component="operator"' in text


TRAINS = NodeWorkload(pod="vision/a", uid="a", phase="Training", epoch=3, step=70, items_per_second=5.0, tuned="x")
SERVES = NodeWorkload(pod="nlp/b", uid="b", phase="Inference")


async def test_workloads_of_all_nodes_are_summed_up_without_a_name() -> None:
    _, text = await answers("", "/ml/metrics", TRAINS, SERVES)
    totals = json.loads(text)
    assert (totals["totalWorkloads"], totals["activeWorkloads"], totals["tunedWorkloads"]) == (2, 1, 1)
    assert (totals["totalEpochs"], totals["totalBatches"]) == (3, 70)
    assert {phase: count for phase, count in totals["workloadsByPhase"].items() if count} == {
        "Training": 1,
        "Inference": 1,
    }
    assert "vision" not in text


async def test_a_process_without_workloads_serves_no_totals() -> None:
    server = HealthServer("webhook", lambda: "", "127.0.0.1", 0)
    assert (await ask(server, "/ml/metrics"))[0] == 404


async def test_a_scrape_of_metrics_updates_the_totals() -> None:
    updates = list[str]()

    def totals() -> WorkloadTotals:
        updates.append("now")
        return workload_totals(())

    await ask(HealthServer("operator", lambda: "", "127.0.0.1", 0, totals), "/metrics")
    assert updates == ["now"]

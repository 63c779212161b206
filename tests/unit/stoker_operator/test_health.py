"""Health, readiness and metrics over HTTP."""

import json

import aiohttp

from stoker_api.node_workload import NodeWorkload
from stoker_operator.health import HealthServer


async def answers(missing: str, path: str, *rows: NodeWorkload) -> tuple[int, str]:
    server = HealthServer(lambda: missing, "127.0.0.1", 0, lambda: rows)
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
    assert "stoker_leader" in text


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


async def test_workloads_are_metrics_by_phase() -> None:
    _, text = await answers("", "/metrics", TRAINS, SERVES)
    assert 'stoker_cluster_workloads{phase="Training"} 1.0' in text
    assert 'stoker_cluster_workloads{phase="Validation"} 0.0' in text
    assert "stoker_cluster_epochs 3.0" in text

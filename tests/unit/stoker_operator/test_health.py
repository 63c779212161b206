"""Health, readiness and metrics over HTTP."""

import aiohttp

from stoker_operator.health import HealthServer


async def answers(missing: str, path: str) -> tuple[int, str]:
    server = HealthServer(lambda: missing, "127.0.0.1", 0)
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

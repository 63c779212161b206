"""Requests of support commands: the server's clock, dry runs, and ends of logs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from stoker_kube.access.transport import Transport
from stoker_kube.client import KubeClient
from stoker_kube.resources import PODS
from tests.support.plain_access import PlainAccess

Answer = Callable[[web.Request], web.Response]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[KubeClient]:
    """Yield a client of a server that gives this answer to each request."""

    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(app) as server, KubeClient(Transport(PlainAccess(_address(server)))) as client:
        yield client


def _address(server: BaseTestServer) -> str:
    return str(server.make_url("")).rstrip("/")


@pytest.mark.parametrize(
    ("date", "seconds"),
    [("Mon, 01 Jun 2026 12:00:00 GMT", datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()), ("yesterday", 0.0)],
)
async def test_the_version_has_the_clock_of_the_server(date: str, seconds: float) -> None:
    def answer(_: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.36.0"}, headers={"Date": date})

    async with serving(answer) as client:
        version = await client.version()
    assert (version.git_version, version.time) == ("v1.36.0", seconds)


async def test_a_dry_run_stores_nothing() -> None:
    asked: list[str] = []

    def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path_qs}")
        return web.json_response({"kind": "Pod"}, status=201)

    async with serving(answer) as client:
        await client.dry_run(PODS, {"metadata": {"name": "a"}}, "vision")
    assert asked == ["POST /api/v1/namespaces/vision/pods?dryRun=All"]


def log_server(lines: list[bytes], asked: list[dict[str, str]]) -> Answer:
    """Answer as the API server: the last lines, of which those beyond the limit are dropped at the end."""

    def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        tail = b"".join(lines[-int(request.query["tailLines"]) :])
        return web.Response(body=tail[: int(request.query["limitBytes"])])

    return answer


@pytest.mark.parametrize("length", [10, 100, 1000, 100_000])
async def test_a_log_keeps_its_end_however_long_its_lines_are(length: int) -> None:
    lines = [b"%06d%s\n" % (number, b"x" * length) for number in range(300)]
    async with serving(log_server(lines, [])) as client:
        log = await client.pod_log("a", "vision", "main", most=4096)
    assert len(log) <= 4096
    assert length == 100_000 or log.endswith(lines[-1])


async def test_the_log_before_a_restart_is_asked_for() -> None:
    asked: list[dict[str, str]] = []
    async with serving(log_server([b"end\n"], asked)) as client:
        assert await client.pod_log("a", "vision", "main", most=4096, previous=True) == b"end\n"
    assert (asked[0]["previous"], asked[0]["container"]) == ("true", "main")

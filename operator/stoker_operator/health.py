"""Health, readiness and metrics over HTTP, on every replica."""

from collections.abc import Callable, Iterable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from stoker_api.node_workload import NodeWorkload
from stoker_api.workload_totals import workload_totals
from stoker_operator import metrics

_STOP_SECONDS = 1.0  # scrapes and probes take milliseconds


class HealthServer:
    """Health and metrics over HTTP.

    ``/healthz`` answers while the event loop turns, ``/readyz`` when ``missing()`` is empty, ``/metrics`` always, and
    ``/ml/metrics`` with sums over the workloads of all nodes, which name nobody.
    """

    def __init__(
        self, missing: Callable[[], str], host: str, port: int, workloads: Callable[[], Iterable[NodeWorkload]]
    ) -> None:
        """Prepare to serve.

        ``missing()`` names what is not ready yet, in a sentence, or gives an empty string; ``workloads()`` gives what
        the nodes say of their pods.
        """
        self._missing: Final = missing
        self._workloads: Final = workloads
        self._host: Final = host
        self._port = port
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/ml/metrics", self._totals)
        self._runner: Final = web.AppRunner(application, access_log=None, shutdown_timeout=_STOP_SECONDS)

    @property
    def port(self) -> int:
        """The bound port; the one asked for until started."""
        return self._port

    async def start(self) -> None:
        """Bind and serve until ``stop``. Raises OSError when the port is taken."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the socket."""
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        missing = self._missing()
        return web.Response(text=missing or "ok", status=503 if missing else 200)

    async def _totals(self, _: web.Request) -> web.Response:
        return web.json_response(workload_totals(self._workloads()).wire())

    async def _metrics(self, _: web.Request) -> web.Response:
        metrics.show_workloads(workload_totals(self._workloads()))
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

"""Health, readiness and metrics over HTTP, in each process of the operator."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, disable_created_metrics, generate_latest

from stoker_api.node_caches.workload_totals import WorkloadTotals
from stoker_kube.serving.bounded_site import BoundedSite
from stoker_kube.serving.connections import ConnectionLimits, Connections

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which no dashboard reads

BUILD_INFO = Gauge("stoker_build_info", "Version of Stoker; the value is always 1.", ["component", "version"])
_STOP_SECONDS = 1.0  # scrapes and probes take milliseconds


class HealthServer:
    """Health and metrics over HTTP.

    ``/healthz`` answers while the event loop turns, ``/readyz`` when ``missing()`` is empty, ``/metrics`` always.
    ``/ml/metrics`` serves sums over the workloads of all nodes, without names.
    """

    def __init__(
        self,
        component: str,
        missing: Callable[[], str],
        host: str | None,
        port: int,
        totals: Callable[[], WorkloadTotals] | None = None,
    ) -> None:
        """Prepare to serve.

        ``component`` is the process's label in ``stoker_build_info``. ``missing()`` says in a sentence what is not
        ready yet, or returns an empty string. ``totals()`` sums up the workloads and updates their metrics.
        ``host`` None: every address, IPv4 and IPv6.
        """
        BUILD_INFO.labels(component, version("stoker")).set(1)
        self._missing: Final = missing
        self._totals: Final = totals
        self._host: Final = host
        self._port = port
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        if totals is not None:
            application.router.add_get("/ml/metrics", self._show_totals)
        limits = ConnectionLimits()
        self._connections: Final = Connections(limits)
        self._runner: Final = web.AppRunner(
            application, access_log=None, shutdown_timeout=_STOP_SECONDS, keepalive_timeout=limits.seconds / 2
        )

    @property
    def port(self) -> int:
        """The bound port; the one asked for until started."""
        return self._port

    async def start(self) -> None:
        """Bind and serve until ``stop``. Raises OSError when the port is taken."""
        await self._runner.setup()
        site = BoundedSite(self._runner, self._host, self._port, self._connections)
        await site.start()
        self._port = site.port

    async def stop(self) -> None:
        """Close the socket."""
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        missing = self._missing()
        return web.Response(text=missing or "ok", status=503 if missing else 200)

    async def _show_totals(self, _: web.Request) -> web.Response:
        return web.json_response(self._totals().wire() if self._totals is not None else {})

    async def _metrics(self, _: web.Request) -> web.Response:
        if self._totals is not None:
            self._totals()
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

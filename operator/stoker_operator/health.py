"""Health, readiness and metrics over HTTP, on every replica."""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

_STOP_SECONDS = 1.0  # scrapes and probes take milliseconds


class HealthServer:
    """Health and metrics over HTTP.

    ``/healthz`` answers while the event loop turns, ``/readyz`` when ``missing()`` is empty, ``/metrics`` always.
    """

    def __init__(self, missing: Callable[[], str], host: str, port: int) -> None:
        """Prepare to serve; ``missing()`` names what is not ready yet, in a sentence, or gives an empty string."""
        self._missing: Final = missing
        self._host: Final = host
        self._port = port
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
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

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

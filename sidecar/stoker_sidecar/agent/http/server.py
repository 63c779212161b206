"""The node's HTTP servers: health and metrics; separately, manifests for nodes and figures for the operator."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from stoker_api.node_caches.node_answer import FIGURES_PATH, PATH, NodeAnswer
from stoker_kube.serving.bounded_site import BoundedSite
from stoker_kube.serving.connections import ConnectionLimits, Connections
from stoker_sidecar.agent.http.peers.file_response import send_file
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.config.peer_tls import is_operator


class NodePage:
    """The page; ``answer`` returns the node's current state."""

    def __init__(self, answer: Callable[[], NodeAnswer]) -> None:
        self._answer = answer

    def add_to(self, application: web.Application) -> None:
        """Add the page to an application."""
        application.router.add_get(PATH, self._show)

    async def _show(self, request: web.Request) -> web.StreamResponse:
        """Answer with everything, or with the part about one Dataset (``dataset=NAMESPACE/NAME``)."""
        answer, dataset = self._answer(), request.query.get("dataset", "")
        return web.json_response((answer.about(dataset) if dataset else answer).wire())


# A Dataset's UID and a SHA-256; both become folder names.
_UID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class NodeHttp:
    """The HTTP servers of a node.

    ``not_ready`` returns the reason in a sentence, or an empty string. ``metrics`` returns the text format. ``folders``
    finds the versions. ``totals`` answers with sums over workloads.
    """

    def __init__(
        self,
        folders: CacheFolders,
        not_ready: Callable[[], str],
        metrics: Callable[[], bytes],
        totals: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> None:
        self._folders = folders
        self._not_ready = not_ready
        self._metrics = metrics
        self._totals = totals

    def application(self) -> web.Application:
        """Return the public pages, for any client that reaches the port."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._render)
        app.router.add_get("/ml/metrics", self._totals)
        return app

    def for_peers(self) -> web.Application:
        """Return the pages for other nodes."""
        app = web.Application()
        app.router.add_get("/manifests/{uid}/{digest}", self._manifest)
        return app

    async def _healthz(self, _: web.Request) -> web.StreamResponse:
        """Answer that the event loop runs.

        A pod restart would cost its FUSE mounts, so no lesser problem justifies one.
        """
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.StreamResponse:
        trouble = self._not_ready()
        return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)

    async def _render(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        """Answer with the SQLite file, which the client verifies against the digest."""
        uid, digest = request.match_info["uid"], request.match_info["digest"]
        if not _UID.fullmatch(uid) or not _DIGEST.fullmatch(digest):
            return _no(400, f"/manifests/{uid}/{digest} is not /manifests/DATASET-UID/SHA-256")
        paths = self._folders.paths(uid, digest)
        if paths is None:
            return _no(404, f"version {digest[:12]} of dataset {uid} is not on this node: ask another one")
        try:
            descriptor = await asyncio.to_thread(open_file_beneath, paths.root, paths.manifest)
        except OSError as error:
            return _no(404, f"version {digest[:12]} of dataset {uid} cannot be read on this node: {error.strerror}")
        try:
            # Through its descriptor: this process is root, and the fetcher, which owns the folder, could create a link.
            return await send_file(request, descriptor, "application/vnd.sqlite3")
        finally:
            os.close(descriptor)


@asynccontextmanager
async def serve_http(application: web.Application, port: int, host: str | None = None) -> AsyncIterator[None]:
    """Serve on ``host``, or on all IPv4 and IPv6 addresses of the pod, inside the context.

    Any pod may reach the port, so connections are few and short: see BoundedSite. Raises OSError if the port is taken.
    """
    limits = ConnectionLimits()
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0, keepalive_timeout=limits.seconds / 2)
    await runner.setup()
    try:
        await BoundedSite(runner, host, port, Connections(limits)).start()
        yield
    finally:
        await runner.cleanup()


def _no(status: int, sentence: str) -> web.Response:
    return web.Response(text=sentence + "\n", status=status)


class FiguresPage:
    """The page; ``answer`` returns the node's current state. It is on the peer port."""

    def __init__(self, answer: Callable[[], NodeAnswer]) -> None:
        self._answer = answer

    def add_to(self, application: web.Application) -> None:
        """Add the page to an application."""
        application.router.add_get(FIGURES_PATH, self._show)

    async def _show(self, request: web.Request) -> web.StreamResponse:
        """Answer only the operator. Other nodes must not read the names of this node's pods."""
        if not is_operator(request.get_extra_info("peercert")):
            return web.Response(status=403, text="The figures of pods are for the operator alone.\n")
        return web.json_response(self._answer().wire())

"""The node's HTTP side: health for the kubelet and metrics for Prometheus; apart from these, manifests for nodes."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from stoker_sidecar.agent.file_response import send_file
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

# A Dataset's UID and a SHA-256; both become names of folders.
_UID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class NodeHttp:
    """The HTTP servers of a node.

    ``not_ready`` gives the sentence why, or an empty one; ``metrics`` the text format; ``folders`` finds the versions;
    ``totals`` answers what workloads do, in sums.
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
        """Return what anyone may ask who reaches the port."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._render)
        app.router.add_get("/ml/metrics", self._totals)
        return app

    def for_peers(self) -> web.Application:
        """Return what other nodes may ask."""
        app = web.Application()
        app.router.add_get("/manifests/{uid}/{digest}", self._manifest)
        return app

    async def _healthz(self, _: web.Request) -> web.StreamResponse:
        """Answer that the event loop runs.

        A restart of the pod would cost its FUSE mounts, so nothing less is a reason for one.
        """
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.StreamResponse:
        trouble = self._not_ready()
        return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)

    async def _render(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        """Answer with the SQLite file, which the reader checks against the digest."""
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
            # By its descriptor: this process is root, and the folder is the fetcher's, which could put a link there.
            return await send_file(request, descriptor, "application/vnd.sqlite3")
        finally:
            os.close(descriptor)


@asynccontextmanager
async def serve_http(application: web.Application, port: int, host: str | None = None) -> AsyncIterator[None]:
    """Serve on ``host``, or on every address of the pod, IPv4 and IPv6, while inside.

    Raises OSError when the port is taken.
    """
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, reuse_address=True).start()
        yield
    finally:
        await runner.cleanup()


def _no(status: int, sentence: str) -> web.Response:
    return web.Response(text=sentence + "\n", status=status)

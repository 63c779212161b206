"""Gives other nodes the files that are whole here: to those alone that are to have the same Dataset."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from aiohttp import web

from stoker_sidecar.agent.file_response import send_file
from stoker_sidecar.agent.plan import NodePlan
from stoker_sidecar.errors import FetcherUnavailable
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Had, Have, Reply

# Files that are given at a time, to all nodes together: the rest of the node has its disk and its link too.
_AT_ONCE = 16


class PeerFiles:
    """What a node answers to others about the files of versions.

    ``ask``: has the fetcher answer; raises FetcherUnavailable.
    """

    def __init__(self, plan: NodePlan, folders: CacheFolders, ask: Callable[[Have], Awaitable[Reply]]) -> None:
        self._plan = plan
        self._folders = folders
        self._ask = ask
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def add_to(self, application: web.Application) -> None:
        """Answer there, below ``/files``."""
        application.router.add_get("/files/{uid}/{digest}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        uid, digest = request.match_info["uid"], request.match_info["digest"]
        if not self._may_have(request.remote, uid, digest):
            return web.Response(status=403, text="this node is not among those that are to have this version\n")
        path = request.query.get("path")
        return await self._have(uid, digest) if path is None else await self._file(request, uid, digest, path)

    def _may_have(self, remote: str | None, uid: str, digest: str) -> bool:
        """Tell whether the operator named who asks: the certificate says only that it is some node."""
        dataset = self._plan.planned.get(uid)
        return dataset is not None and digest == dataset.version and remote in [_host(one) for one in dataset.peers]

    async def _have(self, uid: str, digest: str) -> web.Response:
        try:
            reply = await self._ask(Have(uid, digest))
        except FetcherUnavailable:
            return web.Response(status=503)
        if not isinstance(reply, Had):
            return web.Response(status=404)
        return web.Response(body=reply.files, headers={"Stoker-Arrived": str(reply.arrived)})

    async def _file(self, request: web.Request, uid: str, digest: str, path: str) -> web.StreamResponse:
        paths = self._folders.paths(uid, digest)
        if paths is None:
            return web.Response(status=404)
        async with self._slots:
            try:
                descriptor = await asyncio.to_thread(open_file_beneath, paths.root, paths.tree / path)
            except (OSError, ValueError):  # not whole here, no file, or no name
                return web.Response(status=404)
            try:
                return await send_file(request, descriptor)
            finally:
                os.close(descriptor)


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")

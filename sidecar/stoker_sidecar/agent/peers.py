"""Serves other nodes, who show the same certificate as this one; nobody else is answered."""

import asyncio
import base64
import logging
import ssl
from pathlib import Path

from aiohttp import web

from stoker_api.names import PEER_SECRET
from stoker_kube.api import Kube, Object
from stoker_kube.resources import SECRETS
from stoker_kube.watch import EventType, watch
from stoker_sidecar.wire.peer_tls import PeerTls

log = logging.getLogger(__name__)
_KEYS = ("ca.crt", "tls.crt", "tls.key")  # in the order of PeerTls


class PeerServer:
    """An HTTPS server for ``application`` that follows the Secret in ``namespace``; without one it serves nobody.

    ``run_dir``: where the fetcher finds what is in the Secret.
    """

    def __init__(self, kube: Kube, namespace: str, application: web.Application, port: int, run_dir: Path) -> None:
        self._kube = kube
        self._namespace = namespace
        self._port = port
        self._run_dir = run_dir
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        self._site: web.TCPSite | None = None
        self._serving: PeerTls | None = None

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError when the port is taken."""
        if not self._namespace:
            return
        await self._runner.setup()
        try:
            events = watch(
                self._kube, SECRETS, namespace=self._namespace, field_selector=f"metadata.name={PEER_SECRET}"
            )
            async for event in events:
                if event.type in (EventType.ADDED, EventType.MODIFIED):
                    await self._take(event.object)
        finally:
            await self._runner.cleanup()

    async def _take(self, secret: Object) -> None:
        try:
            found = _parsed(secret)
            tls = found.server_context()
        except (KeyError, ValueError, ssl.SSLError) as error:
            log.warning("Secret %s/%s cannot be used, its last content stays: %r", self._namespace, PEER_SECRET, error)
            return
        if found == self._serving:
            return
        if self._site is not None:
            await self._site.stop()  # who is being answered is answered to the end
        self._site = web.TCPSite(self._runner, port=self._port, ssl_context=tls, reuse_address=True)
        await self._site.start()
        await asyncio.to_thread(found.leave, self._run_dir)
        self._serving = found
        log.info("serving other nodes on port %d", self._port)


def _parsed(secret: Object) -> PeerTls:
    """Read the Secret. Raises KeyError and ValueError."""
    data = [base64.b64decode(secret["data"][name], validate=True).decode("ascii") for name in _KEYS]
    return PeerTls(*data)

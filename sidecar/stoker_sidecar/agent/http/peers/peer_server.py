"""Serves peers that present a node's certificate, and refuses all other clients."""

import asyncio
import json
import logging
import ssl
import subprocess
import sys
from pathlib import Path

from aiohttp import web

from stoker_api.node_caches.peers import PeerCertificate
from stoker_kube.serving.bounded_site import BoundedSite
from stoker_kube.serving.connections import ConnectionLimits, Connections
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.wire.config.peer_tls import FILE, PeerTls

log = logging.getLogger(__name__)

_NEW_KEY = (sys.executable, "-m", "stoker_sidecar.agent.http.peers.new_peer_key")


class PeerIdentity:
    """The node's key. It stays in this process and in the pod's tmpfs, where the fetcher reads it.

    A restarted agent makes a new key.
    """

    def __init__(self) -> None:
        """Make the key. Blocks for a tenth of a second. Raises OSError or CalledProcessError."""
        made = json.loads(subprocess.run(_NEW_KEY, check=True, stdout=subprocess.PIPE).stdout)
        self._key: str = made["private"]
        self.public_key: str = made["public"]

    def certified(self, peer: PeerCertificate) -> PeerTls | None:
        """Return the key and certificate for serving and fetching; None if the certificate is for another key."""
        if not peer.certificate:
            return None
        found = PeerTls(peer.authorities, peer.certificate, self._key)
        try:
            found.server_context()
        except (ValueError, ssl.SSLError):  # a certificate for the previous agent's key
            return None
        return found


# A node has up to some forty peers; each opens 17 connections a version (fetcher/peers/tls_peers.py).
_LIMITS = ConnectionLimits(trusted=512, trusted_per_address=64)
_IDLE = 30.0  # seconds; a peer closes its idle connections after 15


class PeerServer:
    """An HTTPS server for ``application``, with the certificate in the node's plan. It does not listen without one.

    ``run_dir``: where the fetcher finds the certificate.
    """

    def __init__(
        self, plan: NodePlan, identity: PeerIdentity, application: web.Application, port: int, run_dir: Path
    ) -> None:
        self._plan = plan
        self._identity = identity
        self._port = port
        self._run_dir = run_dir
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0, keepalive_timeout=_IDLE)
        self._connections = Connections(_LIMITS)
        self._site: BoundedSite | None = None
        self._serving: PeerTls | None = None

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError if the port is in use."""
        await self._runner.setup()
        try:
            while True:
                token = self._plan.changes.token()
                await self._follow()
                await self._plan.changes.wait(token)
        finally:
            await self._runner.cleanup()

    async def _follow(self) -> None:
        peer = self._plan.peer
        if self._serving is not None and (peer.certificate, peer.authorities) == self._serving.public:
            return
        found = self._identity.certified(peer)
        if found is not None:
            await self._serve(found)
        elif not peer.certificate and self._serving is not None:
            await self._end()

    async def _serve(self, found: PeerTls) -> None:
        if self._site is not None:
            await self._site.stop()  # finishes running responses
        tls = found.server_context()
        self._site = BoundedSite(self._runner, None, self._port, self._connections, tls=tls, by_certificate=True)
        await self._site.start()
        await asyncio.to_thread(found.leave, self._run_dir)
        self._serving = found
        log.info("serving other nodes on port %d", self._port)

    async def _end(self) -> None:
        """Stop serving, and remove the certificate so that the fetcher stops asking peers. The operator revoked it."""
        if self._site is not None:
            await self._site.stop()
        self._site = self._serving = None
        await asyncio.to_thread((self._run_dir / FILE).unlink, missing_ok=True)
        log.warning("the operator took away the certificate of this node for other nodes: it stops serving them")

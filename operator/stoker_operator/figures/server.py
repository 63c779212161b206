"""Serves figures.stoker.dev to the API server's proxy, which has authenticated and authorized the user before."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from stoker_api.jobs.pod_figures import PodFigures
from stoker_kube.api import Kube
from stoker_kube.errors import KubeError, NotFound
from stoker_kube.resources import CONFIG_MAPS
from stoker_kube.serving.bounded_site import BoundedSite
from stoker_kube.serving.connections import ConnectionLimits, Connections
from stoker_operator.core.pod_figures.figures_api import (
    Asked,
    ProxyTrust,
    asked,
    discovery,
    objects,
    proxy_trust,
    refusal,
    table,
)
from stoker_operator.errors import CertificateError
from stoker_operator.webhook.rotation import load_certificate, new_tls_context

log = logging.getLogger(__name__)
TRUST_CONFIG, TRUST_NAMESPACE = "extension-apiserver-authentication", "kube-system"
_SECONDS = 10.0  # for one request
_STOP_SECONDS = 2.0
# Each API server keeps a few connections; a completed handshake shows the proxy's certificate.
_LIMITS = ConnectionLimits(trusted=256, trusted_per_address=128)

Figures = Callable[[Asked], Awaitable[list[PodFigures]]]


class FiguresServer:
    """The HTTPS server of the group. It serves while it knows the API server's proxy and has a certificate.

    ``figures`` gives what is asked for.
    """

    def __init__(self, kube: Kube, figures: Figures, host: str | None, port: int) -> None:
        self._kube: Final = kube
        self._figures: Final = figures
        self._host: Final = host
        self._port = port
        self._pair: tuple[bytes, bytes] | None = None
        self._tls: ssl.SSLContext | None = None
        self._trust: ProxyTrust | None = None
        self._site: BoundedSite | None = None
        application = web.Application(client_max_size=1)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner: Final = web.AppRunner(application, access_log=None, shutdown_timeout=_STOP_SECONDS)
        self._connections: Final = Connections(_LIMITS)
        self._starting: Final = asyncio.Lock()

    @property
    def port(self) -> int:
        """The bound port; the one asked for until started."""
        return self._port

    @property
    def serves(self) -> bool:
        """Whether it answers now."""
        return self._site is not None

    def take_certificate(self, certificate: bytes, key: bytes) -> None:
        """Serve this pair, PEM, from now on. Raises CertificateError."""
        self._pair = certificate, key
        if self._tls is not None:
            load_certificate(self._tls, certificate, key)

    async def ensure(self) -> None:
        """Run one pass: read who the proxy is, and serve it. Raises KubeError and CertificateError."""
        try:
            trust = proxy_trust(await self._kube.get(CONFIG_MAPS, TRUST_CONFIG, TRUST_NAMESPACE))
        except NotFound:
            trust = None
        except ValueError as error:
            raise CertificateError(f"ConfigMap {TRUST_NAMESPACE}/{TRUST_CONFIG} cannot be read: {error}") from error
        async with self._starting:
            if trust is None or self._pair is None:
                return
            before, self._trust = self._trust, trust
            if self._site is None or before is None or before.authorities != trust.authorities:
                await self._start(trust, self._pair)

    async def stop(self) -> None:
        """Take no new requests, and finish those under way."""
        await self._runner.cleanup()
        self._site = None

    async def _start(self, trust: ProxyTrust, pair: tuple[bytes, bytes]) -> None:
        """Serve, in place of a site that trusted other authorities."""
        tls = new_tls_context()
        tls.verify_mode = ssl.CERT_REQUIRED
        try:
            tls.load_verify_locations(cadata=trust.authorities)
        except ssl.SSLError as error:
            raise CertificateError(f"the authorities of the API server's proxy cannot be used: {error}") from error
        load_certificate(tls, *pair)
        if self._site is not None:
            await self._site.stop()
        else:
            await self._runner.setup()
        site = BoundedSite(self._runner, self._host, self._port, self._connections, tls=tls, by_certificate=True)
        await site.start()
        self._site, self._tls, self._port = site, tls, site.port
        log.info("serving figures of pods on port %d", self._port)

    async def _answer(self, request: web.Request) -> web.Response:
        if self._trust is None or not self._trust.is_proxy(request.get_extra_info("peercert")):
            return _json(refusal(403, "Only the API server's proxy may ask: use kubectl get podfigures."), 403)
        # As it was sent, since the API server authorized exactly this path.
        path = request.raw_path.partition("?")[0]
        found = discovery(path)
        if found is not None:
            return _json(found)
        what = asked(path)
        if what is None:
            return _json(refusal(404, "There is no such path in figures.stoker.dev."), 404)
        wrong = _unanswered(request)
        if wrong:
            return _json(refusal(405, wrong), 405)
        try:
            async with asyncio.timeout(_SECONDS):
                return _shown(request, what, await self._figures(what))
        except (KubeError, TimeoutError) as error:
            why = str(error) or "the nodes did not answer in time"
            return _json(refusal(503, f"The figures cannot be collected now: {why}"), 503)


def _unanswered(request: web.Request) -> str:
    """Return why a request is not answered; empty: it is."""
    if request.method not in ("GET", "HEAD"):
        return "podfigures are read-only: use get or list."
    if request.query.get("watch", "") in ("true", "1"):
        return "podfigures cannot be watched: use stoker top, or repeat get."
    if request.query.get("labelSelector") or request.query.get("fieldSelector"):
        return "podfigures have no selectors: name a pod, or list a namespace."
    return ""


def _shown(request: web.Request, what: Asked, rows: Sequence[PodFigures]) -> web.Response:
    if what.name and not rows:
        sentence = f"No node has figures of pod {what.namespace}/{what.name}."
        return _json(refusal(404, sentence), 404)
    if "as=Table" in request.headers.get("Accept", ""):
        return _json(table(rows))
    return _json(rows[0].wire() if what.name else objects(rows))


def _json(body: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json", status=status)

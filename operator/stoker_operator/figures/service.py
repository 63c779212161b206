"""The figures of pods on one replica: the server, what it asks, and its registration."""

import asyncio
import logging
import time
from typing import Final

from stoker_kube.api import Kube
from stoker_kube.errors import KubeError
from stoker_operator.core.views import installed_names
from stoker_operator.errors import CertificateError
from stoker_operator.figures.collector import FiguresCollector
from stoker_operator.figures.node_client import NodeClient, OperatorIdentity
from stoker_operator.figures.registration import FiguresRegistration, withdrawn
from stoker_operator.figures.server import FiguresServer
from stoker_operator.webhook.rotation import INTERVAL, CertifiedServer

log = logging.getLogger(__name__)
_WITHDRAW_SECONDS = 2.0


class FiguresService:
    """Serves figures of pods until cancelled. ``certified`` receives the certificate of the Service."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        identity: str,
        host: str | None,
        port: int,
        service_port: int = installed_names.FIGURES_SERVICE_PORT,
    ) -> None:
        self._client: Final = NodeClient(OperatorIdentity(kube, namespace, time.monotonic))
        collector = FiguresCollector(kube, namespace, self._client)
        self.server: Final = FiguresServer(kube, collector.figures, host, port)
        self._registration: Final = FiguresRegistration(kube, namespace, identity, service_port)
        self._authorities = b""
        self.certified: Final = CertifiedServer(self.server.take_certificate, self._publish)

    async def run(self) -> None:
        """Serve once there is a certificate; a failed pass is logged and tried again."""
        async with self._client:
            try:
                while True:
                    await self._pass()
                    await asyncio.sleep(INTERVAL)
            finally:
                await self._end()

    async def _pass(self) -> None:
        served = self.server.serves
        try:
            await self.server.ensure()
            if self.server.serves and not served:
                await self._publish(self._authorities)
        except (KubeError, CertificateError, OSError) as error:
            log.warning("figures of pods cannot be served now, trying again: %s", error)

    async def _publish(self, authorities: bytes) -> bool:
        """Register the server once it serves: an APIService without a server makes discovery fail."""
        self._authorities = authorities
        try:
            return self.server.serves and await self._registration.publish(authorities)
        except KubeError as error:  # the next pass tries again
            log.warning("the APIService of figures could not be written, trying again: %s", error)
            return False

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(_WITHDRAW_SECONDS):
                await withdrawn(self._registration)
        except TimeoutError:
            log.warning("the APIService could not be read in time")
        await self.server.stop()

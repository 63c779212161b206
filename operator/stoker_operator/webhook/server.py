"""The webhook's HTTPS server: answers from memory, so that pods are made at the speed of the API server."""

import logging
import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import Counter

from stoker_operator.core.catalog import Catalog
from stoker_operator.errors import MalformedReviewError
from stoker_operator.webhook.review import Result, review

log = logging.getLogger(__name__)

REQUESTS = Counter("stoker_webhook_requests", "Admission requests by what came of them.", ["result"])
PATH = "/mutate"
_MAX_BODY = (
    8 * 1024 * 1024
)  # bytes: etcd takes objects of 1.5 MiB, JSON of an AdmissionReview may hold one and its managed fields
_STOP_SECONDS = 5.0  # answers take milliseconds; longer only holds up the end of the process

CatalogSource = Callable[[], Catalog | None]


class WebhookServer:
    """The webhook's HTTPS server, for ``POST /mutate``.

    ``catalog()`` gives None until the Datasets are known: then pods are told to come back.
    """

    def __init__(self, catalog: CatalogSource, tls: ssl.SSLContext, host: str, port: int) -> None:
        self._catalog: Final = catalog
        self._tls: Final = tls
        self._host: Final = host
        self._port = port
        application = web.Application(client_max_size=_MAX_BODY)
        application.router.add_post(PATH, self._mutate)
        self._runner: Final = web.AppRunner(application, access_log=None, shutdown_timeout=_STOP_SECONDS)
        for result in Result:
            REQUESTS.labels(result.value)

    @property
    def port(self) -> int:
        """The bound port; the one asked for until started."""
        return self._port

    async def start(self) -> None:
        """Bind and serve until ``stop``. Raises OSError when the port is taken."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Take no new requests, finish those under way."""
        await self._runner.cleanup()

    async def _mutate(self, request: web.Request) -> web.Response:
        catalog = self._catalog()
        if catalog is None:
            REQUESTS.labels(Result.NOT_READY.value).inc()
            return web.Response(status=503, text="Stoker is starting and does not know the Datasets yet: try again.")
        try:
            answer, result = review(await request.read(), catalog)
        except MalformedReviewError as error:
            REQUESTS.labels(Result.MALFORMED.value).inc()
            return web.Response(status=400, text=str(error))
        REQUESTS.labels(result.value).inc()
        if result is Result.REFUSED:
            log.info("refused a pod: %s", answer["response"]["status"]["message"])
        return web.json_response(answer)

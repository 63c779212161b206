"""The webhook's HTTPS server: answers from memory, so that pods are made at the speed of the API server."""

import asyncio
import logging
import ssl
from collections import ChainMap
from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import Counter

from stoker_operator.core.catalog import Catalog, CatalogEntry
from stoker_operator.errors import MalformedReviewError
from stoker_operator.webhook.late_datasets import LookUp
from stoker_operator.webhook.review import Result, Review, review

log = logging.getLogger(__name__)

REQUESTS = Counter("stoker_webhook_requests", "Admission requests by what came of them.", ["result"])
PATH = "/mutate"
_MAX_BODY = (
    8 * 1024 * 1024
)  # bytes: etcd takes objects of 1.5 MiB, JSON of an AdmissionReview may hold one and its managed fields
_LATE_SECONDS = 5.0  # for looks at the API server, which waits 10 for the answer; each look is bounded too
_STOP_SECONDS = 5.0  # answers take milliseconds; longer only holds up the end of the process

CatalogSource = Callable[[], Catalog | None]


class WebhookServer:
    """The webhook's HTTPS server, for ``POST /mutate``.

    ``catalog()`` gives None until the Datasets are known: then pods are told to come back.
    """

    def __init__(self, catalog: CatalogSource, find: LookUp, tls: ssl.SSLContext, host: str, port: int) -> None:
        """Prepare to serve; ``find`` asks the API server for a Dataset that ``catalog()`` does not have."""
        self._catalog: Final = catalog
        self._find: Final = find
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
            reviewed = await self._review(await request.read(), catalog)
        except MalformedReviewError as error:
            REQUESTS.labels(Result.MALFORMED.value).inc()
            return web.Response(status=400, text=str(error))
        REQUESTS.labels(reviewed.result.value).inc()
        if reviewed.result is Result.REFUSED:
            log.info("refused a pod: %s", reviewed.answer["response"]["status"]["message"])
        return web.json_response(reviewed.answer)

    async def _review(self, body: bytes, catalog: Catalog) -> Review:
        """Review with what is known; once more for each Dataset that was made so recently that no watch told of it."""
        late: dict[str, CatalogEntry] = {}
        clock = asyncio.get_running_loop().time
        deadline = clock() + _LATE_SECONDS
        while True:
            reviewed = review(body, ChainMap(late, dict(catalog)) if late else catalog)
            entry = await self._find(reviewed.unknown) if reviewed.unknown and clock() < deadline else None
            if entry is None:
                return reviewed
            late[reviewed.unknown] = entry

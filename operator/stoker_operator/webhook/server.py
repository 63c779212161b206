"""The webhook's HTTPS server: answers from memory, so that pods are made at the speed of the API server."""

import asyncio
import logging
import ssl
from collections import ChainMap
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from aiohttp import web
from prometheus_client import Counter

from stoker_operator.core.catalog import Catalog, CatalogEntry
from stoker_operator.errors import MalformedReviewError
from stoker_operator.foreground import FOREGROUND
from stoker_operator.webhook.late_datasets import LookUp
from stoker_operator.webhook.review import Result, Review, review

log = logging.getLogger(__name__)

REQUESTS = Counter("stoker_webhook_requests", "Admission requests by what came of them.", ["result"])
_MAX_BODY = (
    8 * 1024 * 1024
)  # bytes: etcd takes objects of 1.5 MiB, JSON of an AdmissionReview may hold one and its managed fields
SMALL = 64 * 1024  # bytes; a review of so many takes less than the way into a thread and back
_LATE_SECONDS = 5.0  # for looks at the API server, which waits 10 for the answer; each look is bounded too
_AT_ONCE = 16  # reviews whose bodies are in memory; the others' are not read yet
_STOP_SECONDS = 5.0  # answers take milliseconds; longer only holds up the end of the process

CatalogSource = Callable[[], Catalog | None]


class WebhookServer:
    """The webhook's HTTPS server.

    ``catalog()`` gives None until the Datasets are known: then pods are told to come back. It is read by single keys,
    in a thread.
    """

    def __init__(
        self,
        catalog: CatalogSource,
        find: LookUp,
        tls: ssl.SSLContext,
        host: str,
        port: int,
        *,
        is_called_by: Callable[[str], Awaitable[bool]],
        reports: bool = False,
    ) -> None:
        """Prepare to serve.

        ``find`` asks the API server for a Dataset that ``catalog()`` does not have; ``is_called_by(path)`` tells
        whether it is the API server that calls. ``reports``: pods get a way to report what they do.
        """
        self._reports: Final = reports
        self._catalog: Final = catalog
        self._is_called_by: Final = is_called_by
        self._reviewing: Final = ThreadPoolExecutor(1, thread_name_prefix="review")
        self._turns: Final = asyncio.Semaphore(_AT_ONCE)
        self._find: Final = find
        self._tls: Final = tls
        self._host: Final = host
        self._port = port
        application = web.Application(client_max_size=_MAX_BODY)
        application.router.add_post("/{path:.*}", self._mutate)
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
        self._reviewing.shutdown(wait=False)

    async def _mutate(self, request: web.Request) -> web.Response:
        # Before a byte of the body is read.
        if not await self._is_called_by(request.path):
            REQUESTS.labels(Result.STRANGER.value).inc()
            return web.Response(status=404)
        async with self._turns:
            with FOREGROUND.one():
                return await self._answer(request)

    async def _answer(self, request: web.Request) -> web.Response:
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
            log.info("refused: %s", reviewed.answer["response"]["status"]["message"])
        return web.json_response(reviewed.answer)

    async def _review(self, body: bytes, catalog: Catalog) -> Review:
        """Review with what is known; once more for each Dataset that was made so recently that no watch told of it."""
        late: dict[str, CatalogEntry] = {}
        clock = asyncio.get_running_loop().time
        deadline = clock() + _LATE_SECONDS
        while True:
            known = ChainMap(late, dict(catalog)) if late else catalog
            work = partial(review, body, known, reports=self._reports)
            # In a thread: a review may be megabytes, and the loop renews the Lease and answers probes.
            large = len(body) > SMALL
            reviewed = await asyncio.get_running_loop().run_in_executor(self._reviewing, work) if large else work()
            entry = await self._find(reviewed.unknown) if reviewed.unknown and clock() < deadline else None
            if entry is None:
                return reviewed
            late[reviewed.unknown] = entry

"""The webhook's HTTPS server: it answers from memory, so that it does not slow down the creation of pods."""

import asyncio
import logging
import re
import ssl
from collections import ChainMap, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

import msgspec
from aiohttp import web
from prometheus_client import Counter

from stoker_api.log_lines import log_subject
from stoker_api.meta import shortened
from stoker_kube.serving.bounded_site import BoundedSite
from stoker_kube.serving.connections import ConnectionLimits, Connections
from stoker_operator.core.views.catalog import Catalog, CatalogEntry
from stoker_operator.errors import MalformedReviewError
from stoker_operator.webhook.late_datasets import LookUp
from stoker_operator.webhook.review import Result, Review, decide
from stoker_operator.webhook.review_request import ReviewRequest, read_review

# A quote within a JSON string is escaped, so this matches a member only. In an AdmissionReview it comes before the
# object, whose metadata also has a namespace.
_NAMESPACE: Final = re.compile(rb'"namespace": ?"([^"\\]{0,253})"')


class FairTurns:
    """Turns by namespace, ``at_once`` at a time; for use from one event loop."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: Final[OrderedDict[str, deque[asyncio.Future[None]]]] = OrderedDict()

    @asynccontextmanager
    async def one(self, namespace: str) -> AsyncIterator[None]:
        """Hold a turn while inside. Each release grants the next namespace's first waiting turn."""
        await self._take(namespace)
        try:
            yield
        finally:
            self._grant_next()

    async def _take(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._grant_next()
            raise

    def _grant_next(self) -> None:
        while self._waiting:
            namespace, waiting = self._waiting.popitem(last=False)
            granted = waiting.popleft()
            if waiting:
                self._waiting[namespace] = waiting
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1


def namespace_in(head: bytes) -> str:
    """Return the namespace in the first bytes of an AdmissionReview; empty if they have none."""
    found = _NAMESPACE.search(head)
    return found[1].decode(errors="replace") if found else ""


log = logging.getLogger(__name__)

REQUESTS = Counter("stoker_webhook_requests", "Admission requests by result.", ["result"])
# Bytes of a review. An object has at most 1.5 MiB in etcd, and a TuningProfile's update includes the old one, too.
MOST_BODY: Final = 3 * 1024 * 1024
SMALL: Final = 64 * 1024  # bytes; a review of this size takes less time than a thread hop
_LATE_SECONDS = 5.0  # for lookups at the API server, which waits 10 for the answer; each lookup is bounded too
AT_ONCE = 4  # concurrent reviews above SMALL in memory; of waiting ones only the first bytes are read
# An API server opens a connection for each request under way, often from the address of a node or a proxy. Once it has
# called the secret path, its connections have a separate pool.
_LIMITS = ConnectionLimits(strangers=128, strangers_per_address=64, trusted=1024, trusted_per_address=1024)
_STOP_SECONDS = 5.0  # answers take milliseconds; longer only delays the end of the process

_MOST_LOGGED: Final = 300  # characters of a refusal
T = TypeVar("T")
CatalogSource = Callable[[], Catalog | None]
Runner = Callable[[Callable[[], Review]], Awaitable[Review]]


class WebhookServer:
    """The webhook's HTTPS server.

    ``catalog()`` returns None until the Datasets are known; until then the answer is status 503. A thread reads
    single keys of it.
    """

    def __init__(
        self,
        catalog: CatalogSource,
        find: LookUp,
        tls: ssl.SSLContext,
        host: str | None,
        port: int,
        *,
        is_called_by: Callable[[str], Awaitable[bool]],
        reports: bool = False,
    ) -> None:
        """Prepare to serve.

        ``find`` looks up a Dataset that ``catalog()`` lacks. ``is_called_by(path)`` returns True if the caller is the
        API server. ``reports``: pods get a socket for reports.
        ``host`` None: every address, IPv4 and IPv6.
        """
        self._reports: Final = reports
        self._catalog: Final = catalog
        self._is_called_by: Final = is_called_by
        self._reviewing: Final = ThreadPoolExecutor(1, thread_name_prefix="review")
        self._turns: Final = FairTurns(AT_ONCE)
        self._find: Final = find
        self._tls: Final = tls
        self._host: Final = host
        self._port = port
        self._site: BoundedSite | None = None
        application = web.Application(client_max_size=MOST_BODY)
        application.router.add_post("/{path:.*}", self._mutate)
        self._runner: Final = web.AppRunner(application, access_log=None, shutdown_timeout=_STOP_SECONDS)
        for result in Result:
            REQUESTS.labels(result.value)

    @property
    def port(self) -> int:
        """The bound port; before ``start``, the requested one."""
        return self._port

    async def start(self) -> None:
        """Bind and serve until ``stop``. Raises OSError when the port is taken."""
        await self._runner.setup()
        self._site = BoundedSite(self._runner, self._host, self._port, Connections(_LIMITS), tls=self._tls)
        await self._site.start()
        self._port = self._site.port

    async def stop(self) -> None:
        """Stop accepting requests and finish those in flight."""
        await self._runner.cleanup()
        self._reviewing.shutdown(wait=False)

    async def _mutate(self, request: web.Request) -> web.Response:
        # Before a byte of the body is read.
        if not await self._is_called_by(request.path):
            REQUESTS.labels(Result.STRANGER.value).inc()
            return web.Response(status=404)
        if self._site is not None:
            self._site.trust(request)
        if (request.content_length or MOST_BODY) <= SMALL:
            return await self._answer(await request.read(), self._decide_small)
        # Large reviews take turns before their bodies are read, and small ones do not wait for them.
        head = await request.content.readany()
        async with self._turns.one(namespace_in(head)):
            return await self._answer(await _whole(request, head), self._decide_large)

    async def _answer(self, body: bytes, decide_one: Callable[[bytes, Catalog], Awaitable[Review]]) -> web.Response:
        catalog = self._catalog()
        if catalog is None:
            REQUESTS.labels(Result.NOT_READY.value).inc()
            return web.Response(status=503, text="Stoker is starting and does not know the Datasets yet: try again.")
        try:
            reviewed = await decide_one(body, catalog)
        except MalformedReviewError as error:
            REQUESTS.labels(Result.MALFORMED.value).inc()
            return web.Response(status=400, text=str(error))
        REQUESTS.labels(reviewed.result.value).inc()
        return web.Response(body=msgspec.json.encode(reviewed.answer), content_type="application/json")

    async def _decide_small(self, body: bytes, catalog: Catalog) -> Review:
        request = read_review(body)
        if request.is_quick:
            return await self._decide(request, catalog, _at_once)
        async with self._turns.one(request.namespace):
            return await self._decide(request, catalog, self._in_thread)

    async def _decide_large(self, body: bytes, catalog: Catalog) -> Review:
        return await self._decide(await self._in_thread(partial(read_review, body)), catalog, self._in_thread)

    async def _decide(self, request: ReviewRequest, catalog: Catalog, run: Runner) -> Review:
        """Review with the catalog, and again after each lookup of a Dataset that it lacks."""
        late: dict[str, CatalogEntry] = {}
        clock = asyncio.get_running_loop().time
        deadline = clock() + _LATE_SECONDS
        while True:
            known = ChainMap(late, dict(catalog)) if late else catalog
            reviewed = await run(partial(decide, request, known, reports=self._reports))
            entry = await self._find(reviewed.unknown) if reviewed.unknown and clock() < deadline else None
            if entry is None:
                _log_refusal(request, reviewed)
                return reviewed
            late[reviewed.unknown] = entry

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run in a thread, while the loop answers small reviews and probes."""
        return await asyncio.get_running_loop().run_in_executor(self._reviewing, work)


def _log_refusal(request: ReviewRequest, reviewed: Review) -> None:
    if reviewed.result is Result.REFUSED:
        with log_subject(namespace=request.namespace):
            log.info("refused: %s", shortened(reviewed.answer["response"]["status"]["message"], _MOST_LOGGED))


async def _at_once(work: Callable[[], T]) -> T:
    return work()


async def _whole(request: web.Request, head: bytes) -> bytes:
    """Read the rest of a body that begins with ``head``. Raises HTTPRequestEntityTooLarge above ``MOST_BODY``."""
    body = bytearray(head)
    while len(body) <= MOST_BODY and (chunk := await request.content.readany()):
        body.extend(chunk)
    if len(body) > MOST_BODY:
        raise web.HTTPRequestEntityTooLarge(MOST_BODY, len(body))
    return bytes(body)

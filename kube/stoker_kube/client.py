"""The client of a real API server. Each method is one REST request."""

import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from stoker_kube.access.port_forward import PROTOCOL, ask
from stoker_kube.access.service_account import ACCOUNT
from stoker_kube.access.transport import Request, Transport
from stoker_kube.api import MERGE, Listing, Object, PatchBody, PatchType, Propagation
from stoker_kube.errors import Expired
from stoker_kube.pages import read_page
from stoker_kube.resources import NODE_CACHES, PODS, Kind


class LineSplitter:
    """Splits chunks into lines. An incomplete line waits for the next chunk.

    Lines may be longer than any read buffer.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take a chunk, and yield complete lines without line ends. Empty lines are skipped."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            joined = b"".join([*self._rest, line])
            self._rest.clear()
            if joined.strip():
                yield joined
        if rest:
            self._rest.append(rest)


# Control characters, line breaks beyond ASCII and lone surrogates need escapes in YAML. Escaping all of the Basic
# Multilingual Plane beyond ASCII is simpler and equally correct.
_TO_ESCAPE = re.compile("[\x7f-\uffff]")
_REPLACEMENT = 0xFFFD  # the API server also replaces lone surrogates with it


def apply_body(body: Mapping[str, Any]) -> bytes:
    """Encode ``body`` as UTF-8 with the same meaning in JSON and YAML.

    A character beyond U+FFFF is not escaped, because YAML refuses the two escapes of ``json.dumps``. A lone surrogate
    becomes U+FFFD.
    """
    return _TO_ESCAPE.sub(_escape, json.dumps(body, ensure_ascii=False)).encode()


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{_REPLACEMENT if 0xD800 <= code <= 0xDFFF else code:04x}"


PAGE_SIZE = 500  # objects per page, as in kubectl
LARGE_PAGE_SIZE = 100  # for objects of tens of kilobytes, because a page is in memory as a whole
WATCH_SECONDS = (240, 360)  # random, so that a thousand sidecars do not reconnect together
# Seconds. The server sends a bookmark about once a minute. After a longer silence, the connection is dead.
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=30, sock_read=150)
APPLY = "application/apply-patch+yaml"
_LINE = 100  # bytes of a log line that is shorter than usual
_LOG_READ = 4


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """The version of an API server. ``time``: its clock, seconds since the epoch, to a second; 0 if unknown."""

    git_version: str
    time: float


class KubeClient:
    """An API server over HTTP. Create it with ``connect``, and use it as an asynchronous context manager."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        account: Path = ACCOUNT,
        *,
        compressed: bool = True,
    ) -> Self:
        """Return a client of ``kubeconfig``, else of the cluster of this pod, else of $KUBECONFIG or ~/.kube/config.

        ``account``: folder with the token and the CA of the pod. ``compressed``: accept gzip, which costs more time
        than it saves on a fast network. Sends nothing. Raises ConfigError.
        """
        return cls(await Transport.connect(kubeconfig, context, account, compressed=compressed))

    @classmethod
    def anonymous(cls, folder: Path) -> Self:
        """Return a client of this pod's cluster without credentials, for ``as_bearer``. ``folder``: with its ca.crt.

        Raises ConfigError.
        """
        return cls(Transport.anonymous(folder))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Watches end."""
        await self._transport.close()

    def as_bearer(self, token: str) -> "KubeClient":
        """Return a client with this token that shares the connections."""
        return KubeClient(self._transport.as_bearer(token))

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Read one object."""
        return await self._transport.call(Request("GET", kind.path(namespace, name)))

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Read all matching objects. Restart if the list expires."""
        while True:
            try:
                pages = [page async for page in self.pages(kind, namespace, label_selector, field_selector)]
            except Expired:
                continue  # compacted between two pages
            return Listing([item for page in pages for item in page.items], pages[-1].resource_version)

    async def pages(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing]:
        """Read all matching objects page by page."""
        size = min(PAGE_SIZE, LARGE_PAGE_SIZE) if kind is NODE_CACHES else PAGE_SIZE
        query = _selectors(label_selector, field_selector) | {"limit": str(size)}
        while True:
            page = await self._transport.read(Request("GET", kind.path(namespace), dict(query)), read_page)
            yield Listing(page.objects(kind), str(page.metadata.get("resourceVersion", "")))
            if not page.metadata.get("continue"):
                return
            query["continue"] = page.metadata["continue"]

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        """Create an object."""
        path = kind.path(namespace or namespace_of(body))
        return await self._transport.call(Request("POST", path, body=typed(kind, body)))

    async def apply(self, kind: Kind, body: Object, *, field_manager: str, subresource: str = "") -> Object:
        """Apply an object on the server with force."""
        path = kind.path(namespace_of(body), body["metadata"]["name"], subresource)
        query = {"fieldManager": field_manager, "force": "true"}
        return await self._transport.call(Request("PATCH", path, query, apply_body(typed(kind, body)), APPLY))

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: PatchBody,
        namespace: str = "",
        *,
        subresource: str = "",
        content_type: PatchType = MERGE,
    ) -> Object:
        """Send a merge or JSON patch."""
        path = kind.path(namespace, name, subresource)
        return await self._transport.call(Request("PATCH", path, body=body, content_type=content_type.value))

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", *, uid: str = "", propagation: Propagation = "Background"
    ) -> None:
        """Delete an object."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        options |= {"preconditions": {"uid": uid}} if uid else {}
        await self._transport.call(Request("DELETE", kind.path(namespace, name), body=options))

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Object) -> Object:
        """Create a subresource."""
        return await self._transport.call(Request("POST", kind.path(namespace, name, subresource), body=body))

    async def ask_pod(self, name: str, namespace: str, port: int, path: str, most: int) -> bytes:
        """Return the body of ``GET path`` on a loopback port of a pod, through the API server.

        ``most``: limit in bytes. Raises KubeError, and NotFound if the pod or the path does not exist.
        """
        forward, query = PODS.path(namespace, name, "portforward"), {"ports": str(port)}
        async with self._transport.websocket(forward, query, PROTOCOL) as socket:
            return await ask(socket, path, most)

    async def version(self) -> ServerVersion:
        """Return the version of the API server, and its time from the Date header."""
        async with self._transport.open(Request("GET", "/version")) as response:
            body = json.loads(await response.read())
            return ServerVersion(str(body.get("gitVersion") or ""), _date(str(response.headers.get("Date", ""))))

    async def dry_run(self, kind: Kind, body: Object, namespace: str) -> Object:
        """Have the API server admit a new object, with all webhooks, and store nothing. Return the admitted object."""
        request = Request("POST", kind.path(namespace), {"dryRun": "All"}, typed(kind, body))
        return await self._transport.call(request)

    async def pod_log(self, name: str, namespace: str, container: str, *, most: int, previous: bool = False) -> bytes:
        """Return the end of a container's log, of at most ``most`` bytes. ``previous``: before its last restart.

        The API server drops the newest bytes beyond its limit, so this reads fewer lines until all of them fit.
        """
        lines, limit, path = most // _LINE, _LOG_READ * most, PODS.path(namespace, name, "log")
        while True:
            query = {"container": container, "tailLines": str(max(1, lines)), "limitBytes": str(limit)}
            query |= {"previous": "true"} if previous else {}
            log = await self._transport.read(Request("GET", path, query), bytes)
            if len(log) < limit or lines <= 1:
                return log[-most:]
            lines //= _LOG_READ

    async def stream(
        self,
        kind: Kind,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[Object]:
        """Read one watch connection until the server ends it."""
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
        }
        request = Request("GET", kind.path(namespace), query, timeout=WATCH_TIMEOUT)
        async with self._transport.open(request) as response:
            lines = LineSplitter()
            try:
                async for chunk in response.content.iter_any():
                    for line in lines.feed(chunk):
                        yield json.loads(line)
            except aiohttp.SocketTimeoutError:
                # The kind is quiet (an old etcd sends no bookmarks) or the connection is dead. The next connection
                # starts at the same resourceVersion.
                return


def _date(text: str) -> float:
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return 0.0


def typed(kind: Kind, body: Mapping[str, Any]) -> Object:
    """Return ``body`` with apiVersion and kind. Callers and lists omit them."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def namespace_of(body: Mapping[str, Any]) -> str:
    """Return ``metadata.namespace``, or empty."""
    return str((body.get("metadata") or {}).get("namespace") or "")


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in query.items() if value}

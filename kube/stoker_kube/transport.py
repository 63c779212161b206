"""HTTP to the API server; foreign errors become ours here and nowhere else."""

import copy
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yarl

from stoker_kube.api import Object, PatchBody
from stoker_kube.errors import ConfigError, Forbidden, KubeError, Unauthorized, Unavailable, from_status
from stoker_kube.service_account import ServiceAccount

T = TypeVar("T")
WebSocket: TypeAlias = aiohttp.ClientWebSocketResponse
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)  # seconds; the API server itself gives up after 60
# Enough connections for some tens of watches beside ordinary requests: a watch holds its connection for minutes.
CONNECTIONS = 100
_CLOSING = aiohttp.ClientWSTimeout(ws_close=1.0)  # seconds; whoever is asked through it has answered by then
# Seconds for which an idle connection is kept, less than the API server's 90: a burst of writes needs no handshakes.
KEEP_ALIVE = 75.0
_HEADERS = {"User-Agent": "stoker", "Accept": "application/json"}
_WATCH_BUFFER = 2**21  # bytes; one object of a watch is one line, and etcd takes 1.5 MB


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; ``path`` is below the server's address and quoted already."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: PatchBody | bytes | None = None
    content_type: str = "application/json"
    timeout: aiohttp.ClientTimeout = REQUEST_TIMEOUT


class ServerAccess(Protocol):
    """Where a server is, and as whom it is asked. Every method may raise ConfigError."""

    host: str
    proxy: str | None
    server_name: str | None  # that the server's certificate is for, where it is another one than the host's

    def ssl(self) -> ssl.SSLContext:
        """Return what verifies the server."""

    async def authorization(self) -> str:
        """Return the value of the header, empty where there is none."""

    async def renew(self) -> bool:
        """Look for other credentials after the server refused those that were sent; whether there are any."""


class Transport:
    """One server, one set of credentials, one connection pool."""

    def __init__(self, access: ServerAccess, *, compressed: bool = True) -> None:
        """Open nothing yet; ``compressed``: long answers may come in gzip."""
        self._access = access
        self._token = ""  # sent in place of one's own
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=access.ssl(), keepalive_timeout=KEEP_ALIVE),
            headers=_HEADERS | ({} if compressed else {"Accept-Encoding": "identity"}),
            read_bufsize=_WATCH_BUFFER,
        )
        # Once, for there is one server: trust_env would look for a proxy and a netrc in a thread for each request.
        self._proxy, self._proxy_auth = _proxy_to(access)

    @classmethod
    async def connect(
        cls, kubeconfig: Path | None, context: str | None, account: Path, *, compressed: bool = True
    ) -> Self:
        """Find the server and the credentials, as ``KubeClient.connect`` says."""
        own = kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ
        try:
            access = ServiceAccount(os.environ, account) if own else await _by_kubeconfig(kubeconfig, context)
            return cls(access, compressed=compressed)
        except ConfigError as error:
            raise ConfigError(f"Cannot find a cluster: {error.message}") from error

    def as_bearer(self, token: str) -> Self:
        """Return a transport that sends this token in place of its own, over the same connections."""
        other = copy.copy(self)
        other._token = token
        return other

    async def close(self) -> None:
        """Close every connection; watches end."""
        await self._session.close()

    async def call(self, request: Request) -> Object:
        """Return the JSON answer of a request that succeeded. Raises KubeError."""
        return await self.read(request, _parsed)

    async def read(self, request: Request, parse: Callable[[bytes], T]) -> T:
        """Return what is read of the answer of a request that succeeded. Raises KubeError.

        ``parse`` may raise JSONDecodeError.
        """
        try:
            return await self._once(request, parse)
        except Unauthorized:
            if self._token or not await self._access.renew():
                raise
        return await self._once(request, parse)

    async def _once(self, request: Request, parse: Callable[[bytes], T]) -> T:
        async with self.open(request) as response:
            return parse(await response.read())

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """Return the answer with a good status, its body unread.

        Raises KubeError, also for what goes wrong while reading.
        """
        try:
            response = await self._send(request)
            try:
                await _raise_for_status(response)
                yield response
            finally:
                # close(), not release(): a half-read watch must not go back to the pool; a whole answer has already.
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, json.JSONDecodeError) as error:
            what = f"{request.method} {request.path}: {type(error).__name__} {error}".rstrip()
            host = self._access.host
            raise Unavailable(0, "Unreachable", f"The API server at {host} did not answer {what}") from error

    @asynccontextmanager
    async def websocket(self, path: str, query: Mapping[str, str], protocol: str) -> AsyncIterator[WebSocket]:
        """Return a WebSocket of this subprotocol, for as long as one is inside.

        Raises KubeError, also for what goes wrong while it is open.
        """
        # What a container runtime streams is of no media type: asked for JSON, it answers 406.
        headers = {"Accept": "*/*"} | await self._authorized()
        url = yarl.URL(f"{self._access.host}{path}?{urlencode(query, quote_via=quote)}", encoded=True)
        try:
            async with self._session.ws_connect(
                url,
                protocols=(protocol,),
                headers=headers,
                proxy=self._access.proxy,
                server_hostname=self._access.server_name,
                timeout=_CLOSING,
            ) as socket:
                yield socket
        except aiohttp.WSServerHandshakeError as error:
            raise _refused(error.status, path) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            what = f"{path}: {type(error).__name__} {error}".rstrip()
            raise Unavailable(
                0, "Unreachable", f"The API server at {self._access.host} did not answer {what}"
            ) from error

    async def _authorized(self) -> dict[str, str]:
        authorization = f"Bearer {self._token}" if self._token else await self._access.authorization()
        return {"Authorization": authorization} if authorization else {}

    async def _send(self, request: Request) -> aiohttp.ClientResponse:
        headers = {"Content-Type": request.content_type} | await self._authorized()
        query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        body = request.body
        return await self._session.request(
            request.method,
            yarl.URL(f"{self._access.host}{request.path}{query}", encoded=True),
            data=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
            headers=headers,
            timeout=request.timeout,
            proxy=self._proxy,
            proxy_auth=self._proxy_auth,
            server_hostname=self._access.server_name,
            allow_redirects=False,
        )


def _proxy_to(access: ServerAccess) -> tuple[yarl.URL | None, aiohttp.BasicAuth | None]:
    """Return the proxy to the server and its credentials: the one that its access names, else the environment's."""
    scheme, host = urlsplit(access.host).scheme, urlsplit(access.host).hostname or ""
    found = access.proxy or ("" if proxy_bypass(host) else getproxies().get(scheme, ""))
    if not found:
        return None, None
    url = yarl.URL(found)
    return url.with_user(None), aiohttp.BasicAuth.from_url(url)


async def _by_kubeconfig(file: Path | None, context: str | None) -> ServerAccess:
    # Imported where it is needed: the library that reads kubeconfigs takes 19 MB, and no pod reads one.
    from stoker_kube.kubeconfig import Kubeconfig

    return await Kubeconfig.load(file, context)


def _refused(status: int, path: str) -> KubeError:
    """Return the error of a handshake: aiohttp keeps its status, and not the sentence."""
    if status == HTTPStatus.FORBIDDEN:
        return Forbidden(status, "Forbidden", f"RBAC does not let you open {path}: it takes get and create of it")
    return from_status(status, {"message": f"the API server answered {path} with {status}"})


def _parsed(content: bytes) -> Object:
    body = json.loads(content)
    return body if isinstance(body, dict) else {"value": body}


async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
    if 200 <= response.status < 300:
        return
    content = await response.read()
    raise _error(response.status, content, str(response.headers.get("Retry-After", "")))


def _error(status: int, content: bytes, retry_after: str) -> KubeError:
    try:
        body: Mapping[str, Any] = _parsed(content)
    except ValueError:  # a proxy or an aggregated server that answers with text
        body = {"message": content.decode("utf-8", "replace").strip()}
    return from_status(status, body, float(retry_after) if retry_after.isdigit() else 0.0)

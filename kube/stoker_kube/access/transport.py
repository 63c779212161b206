"""HTTP requests to the API server. Errors of other libraries become KubeError here."""

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

from stoker_kube.access.service_account import PodNetwork, ServiceAccount
from stoker_kube.api import Object, PatchBody
from stoker_kube.errors import NO_ANSWER, ConfigError, Forbidden, KubeError, Unauthorized, Unavailable, from_status

T = TypeVar("T")
WebSocket: TypeAlias = aiohttp.ClientWebSocketResponse
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)  # seconds; the API server has a limit of 60
# Enough for tens of watches, which each hold a connection for minutes, and for other requests.
CONNECTIONS = 100
_CLOSING = aiohttp.ClientWSTimeout(ws_close=1.0)  # seconds
# Seconds until an idle connection is closed. The API server closes it after 90.
KEEP_ALIVE = 75.0
_HEADERS = {"User-Agent": "stoker", "Accept": "application/json"}
_WATCH_BUFFER = 2**21  # bytes; a line of a watch is an object, and etcd accepts 1.5 MB


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request. ``path``: quoted, below the address of the server."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: PatchBody | bytes | None = None
    content_type: str = "application/json"
    timeout: aiohttp.ClientTimeout = REQUEST_TIMEOUT


class ServerAccess(Protocol):
    """Address and credentials of a server. Every method may raise ConfigError."""

    host: str
    proxy: str | None
    server_name: str | None  # in the certificate of the server, if it differs from the host

    def ssl(self) -> ssl.SSLContext:
        """Return the TLS context."""

    async def authorization(self) -> str:
        """Return the Authorization header, or an empty string."""

    async def renew(self) -> bool:
        """Look for new credentials after Unauthorized. Return True if they changed."""


class Transport:
    """The connection pool and credentials of one server."""

    def __init__(self, access: ServerAccess, *, compressed: bool = True) -> None:
        """Prepare the pool without connecting. ``compressed``: accept gzip."""
        self._access = access
        self._token = ""  # replaces the token of ``access``
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=access.ssl(), keepalive_timeout=KEEP_ALIVE),
            headers=_HEADERS | ({} if compressed else {"Accept-Encoding": "identity"}),
            read_bufsize=_WATCH_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),  # users of ``as_bearer`` share the session
        )
        # Looked up once. trust_env would look for a proxy and a netrc in a thread for each request.
        self._proxy, self._proxy_auth = _proxy_to(access)

    @classmethod
    async def connect(
        cls, kubeconfig: Path | None, context: str | None, account: Path, *, compressed: bool = True
    ) -> Self:
        """Find the server and the credentials. See ``KubeClient.connect``."""
        own = kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ
        try:
            access = ServiceAccount(os.environ, account) if own else await _by_kubeconfig(kubeconfig, context)
            return cls(access, compressed=compressed)
        except ConfigError as error:
            raise ConfigError(f"Cannot find a cluster: {error.message}") from error

    @classmethod
    def anonymous(cls, folder: Path) -> Self:
        """Return a transport to the cluster of this pod without credentials. ``folder``: with its ca.crt."""
        try:
            return cls(PodNetwork(os.environ, folder))
        except ConfigError as error:
            raise ConfigError(f"Cannot find a cluster: {error.message}") from error

    def as_bearer(self, token: str) -> Self:
        """Return a transport with this token that shares the connections."""
        other = copy.copy(self)
        other._token = token
        return other

    async def close(self) -> None:
        """Close all connections. Watches end."""
        await self._session.close()

    async def call(self, request: Request) -> Object:
        """Send a request, and return its JSON answer. Raises KubeError."""
        return await self.read(request, _parsed)

    async def read(self, request: Request, parse: Callable[[bytes], T]) -> T:
        """Send a request, and return its parsed answer. Raises KubeError. ``parse`` may raise JSONDecodeError."""
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
        """Yield a successful answer with its body unread. Raises KubeError, also for errors while reading."""
        try:
            response = await self._send(request)
            try:
                await _raise_for_status(response)
                yield response
            finally:
                # close(), not release(): a partially read watch must not return to the pool.
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, json.JSONDecodeError) as error:
            what = f"{request.method} {request.path}: {type(error).__name__} {error}".rstrip()
            host = self._access.host
            raise Unavailable(0, NO_ANSWER, f"The API server at {host} did not answer {what}") from error

    @asynccontextmanager
    async def websocket(self, path: str, query: Mapping[str, str], protocol: str) -> AsyncIterator[WebSocket]:
        """Yield a WebSocket with this subprotocol. Raises KubeError, also for errors while it is open."""
        # A stream has no media type. With "Accept: application/json", the answer is 406.
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
            raise Unavailable(0, NO_ANSWER, f"The API server at {self._access.host} did not answer {what}") from error

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
    """Return the proxy and its credentials, from the kubeconfig or the environment."""
    scheme, host = urlsplit(access.host).scheme, urlsplit(access.host).hostname or ""
    proxy = access.proxy or ("" if proxy_bypass(host) else getproxies().get(scheme, ""))
    if not proxy:
        return None, None
    url = yarl.URL(proxy)
    return url.with_user(None), aiohttp.BasicAuth.from_url(url)


async def _by_kubeconfig(file: Path | None, context: str | None) -> ServerAccess:
    # Imported late: the library takes 19 MB, and pods do not need it.
    from stoker_kube.access.kubeconfig import Kubeconfig

    return await Kubeconfig.load(file, context)


def _refused(status: int, path: str) -> KubeError:
    """Return the error of a handshake. aiohttp keeps only its status."""
    if status == HTTPStatus.FORBIDDEN:
        return Forbidden(status, "Forbidden", f"You may not open {path}. It needs the verbs get and create.")
    return from_status(status, {"message": f"The API server answered {path} with {status}."})


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
    except ValueError:  # text from a proxy or an aggregated server
        body = {"message": content.decode("utf-8", "replace").strip()}
    return from_status(status, body, float(retry_after) if retry_after.isdigit() else 0.0)

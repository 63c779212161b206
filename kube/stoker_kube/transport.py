"""HTTP to the API server through the official asynchronous client; foreign errors become ours here and nowhere else."""

import copy
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.rest import RESTResponse
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from stoker_kube.api import Object, PatchBody
from stoker_kube.errors import ConfigError, KubeError, Unauthorized, Unavailable, from_status

REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)  # seconds; the API server itself gives up after 60
# Enough connections for some tens of watches beside ordinary requests: a watch holds its connection for minutes.
CONNECTIONS = 100


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; ``path`` is below the server's address and quoted already."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: PatchBody | bytes | None = None
    content_type: str = "application/json"
    timeout: aiohttp.ClientTimeout = REQUEST_TIMEOUT


class Transport:
    """One server, one set of credentials, one connection pool."""

    def __init__(self, configuration: Configuration, kubeconfig: Path | None, context: str | None, own: bool) -> None:
        self._configuration = configuration
        self._kubeconfig = kubeconfig
        self._context = context
        self._own = own  # inside a cluster: the library reads the rotated token by itself
        self._token = ""  # sent in place of one's own
        self._api = ApiClient(configuration)
        self._api.user_agent = "stoker"

    @classmethod
    async def connect(cls, kubeconfig: Path | None, context: str | None) -> Self:
        """Find the server and the credentials, as ``KubeClient.connect`` says."""
        configuration = Configuration()
        configuration.connection_pool_maxsize = CONNECTIONS
        own = kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ
        try:
            if own:
                load_incluster_config(client_configuration=configuration)
            else:
                await _load(configuration, kubeconfig, context)
        except (ConfigException, OSError, ValueError) as error:
            where = "the pod's service account" if own else str(kubeconfig or "$KUBECONFIG or ~/.kube/config")
            raise ConfigError(f"Cannot find a cluster: {where} is not usable: {error}") from error
        return cls(configuration, kubeconfig, context, own)

    def as_bearer(self, token: str) -> Self:
        """Return a transport that sends this token in place of its own, over the same connections."""
        other = copy.copy(self)
        other._token = token
        return other

    async def close(self) -> None:
        """Close every connection; watches end."""
        await self._api.close()

    async def call(self, request: Request) -> Object:
        """Return the JSON answer of a request that succeeded. Raises KubeError."""
        try:
            return await self._once(request)
        except Unauthorized:
            if not await self._renewed():
                raise
        return await self._once(request)

    async def _once(self, request: Request) -> Object:
        async with self.open(request) as response:
            return _parsed(await response.read())

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[RESTResponse]:
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
                response.response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, json.JSONDecodeError) as error:
            what = f"{request.method} {request.path}: {type(error).__name__} {error}".rstrip()
            host = self._configuration.host
            raise Unavailable(0, "Unreachable", f"The API server at {host} did not answer {what}") from error
        except ConfigException as error:
            raise ConfigError(f"The credentials for the API server cannot be read: {error}") from error

    async def _send(self, request: Request) -> RESTResponse:
        headers = {"Accept": "application/json", "Content-Type": request.content_type}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        prepared = await self._api.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query.items()),
            header_params=headers,
            body=request.body,
            auth_settings=[] if self._token else ["BearerToken"],
        )
        return await self._api.call_api(*prepared, _request_timeout=request.timeout)

    async def _renewed(self) -> bool:
        """Read the kubeconfig again, since an exec plugin's token may have expired; whether the token is a new one."""
        if self._own or self._token:
            return False
        before = dict(self._configuration.api_key)
        try:
            await _load(self._configuration, self._kubeconfig, self._context)
        except (ConfigException, OSError, ValueError):
            return False
        return bool(before != self._configuration.api_key)


async def _load(configuration: Configuration, kubeconfig: Path | None, context: str | None) -> None:
    file = {"config_file": str(kubeconfig)} if kubeconfig else {}
    await load_kube_config(**file, context=context, client_configuration=configuration, persist_config=False)


def _parsed(content: bytes) -> Object:
    body = json.loads(content)
    return body if isinstance(body, dict) else {"value": body}


async def _raise_for_status(response: RESTResponse) -> None:
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

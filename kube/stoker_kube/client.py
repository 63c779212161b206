"""The real API server behind ``api.Kube``: every verb as one raw REST request, no generated models."""

import json
import random
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from stoker_kube.api import MERGE, Listing, Object, PatchBody, PatchType, Propagation
from stoker_kube.encoding import apply_body
from stoker_kube.errors import Expired
from stoker_kube.lines import LineSplitter
from stoker_kube.pages import read_page
from stoker_kube.port_forward import PROTOCOL, ask
from stoker_kube.resources import NODE_CACHES, PODS, Kind
from stoker_kube.service_account import ACCOUNT
from stoker_kube.transport import Request, Transport

PAGE_SIZE = 500  # objects of a page; kubectl's own, so that 5,000 pods are ten requests
LARGE_PAGE_SIZE = 100  # of a kind whose objects are tens of kilobytes: a page is in memory, and read, as a whole
WATCH_SECONDS = (240, 360)  # spread, so that a thousand sidecars do not reconnect together
# Seconds. With bookmarks the server says something about once a minute: a silence of this length is a dead connection.
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=30, sock_read=150)
APPLY = "application/apply-patch+yaml"


class KubeClient:
    """An API server over HTTP; make it with ``connect`` and close it as an asynchronous context manager."""

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
        """Return the cluster of ``kubeconfig``; else the one that this pod runs in.

        Else of $KUBECONFIG or ~/.kube/config. ``account``: folder of the pod's token and authority.
        ``compressed``: long answers may come in gzip, which takes both sides more time than a network nearby does.

        Nothing is sent yet. Raises ConfigError.
        """
        return cls(await Transport.connect(kubeconfig, context, account, compressed=compressed))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; watches end."""
        await self._transport.close()

    def as_bearer(self, token: str) -> "KubeClient":
        """Return a client that asks with this token, over the same connections."""
        return KubeClient(self._transport.as_bearer(token))

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Read one object."""
        return await self._transport.call(Request("GET", kind.path(namespace, name)))

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Read all objects that match, from the start again when the list expired."""
        while True:
            try:
                pages = [page async for page in self.pages(kind, namespace, label_selector, field_selector)]
            except Expired:
                continue  # compacted between two pages: the next list starts from a newer version
            return Listing([item for page in pages for item in page.items], pages[-1].resource_version)

    async def pages(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing]:
        """Read all objects that match, a page at a time."""
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
        """Apply on the server's side, by force."""
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
        """Return what a pod answers to ``GET path`` on a port of its loopback address, through the API server.

        ``most``: bytes. Raises KubeError, NotFound where the pod or the path is not there.
        """
        forward, query = PODS.path(namespace, name, "portforward"), {"ports": str(port)}
        async with self._transport.websocket(forward, query, PROTOCOL) as socket:
            return await ask(socket, path, most)

    async def stream(
        self,
        kind: Kind,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[Object]:
        """Hold one watch connection until the server ends it."""
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
                # Nothing was said for a while. A quiet kind (an old etcd sends it no bookmarks) looks just like a dead
                # connection; either way the next one goes on from the same resourceVersion.
                return


def typed(kind: Kind, body: Mapping[str, Any]) -> Object:
    """Return ``body`` with its apiVersion and kind, which callers need not repeat and lists leave out."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def namespace_of(body: Mapping[str, Any]) -> str:
    """Return ``metadata.namespace``, or empty."""
    return str((body.get("metadata") or {}).get("namespace") or "")


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in query.items() if value}

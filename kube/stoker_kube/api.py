"""The interface of the API client, implemented by ``client`` and by the in-memory fake of the tests."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from stoker_kube.resources import Kind

Object = dict[str, Any]  # a Kubernetes object in its JSON form
PatchBody = Object | list[Object]  # a merge patch, or the operations of a JSON patch
Propagation = Literal["Background", "Foreground", "Orphan"]


class PatchType(StrEnum):
    """Content types of patches."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


MERGE = PatchType.MERGE
JSON = PatchType.JSON


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of one kind, and the resourceVersion at which a watch can start."""

    items: Sequence[Object]
    resource_version: str


class Kube(Protocol):
    """An API server. Methods raise only ``errors.KubeError``."""

    def as_bearer(self, token: str) -> "Kube":
        """Return a client with this token. It raises Unauthorized after the token expires."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Read one object. Raises NotFound."""

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Return all matching objects. An empty namespace means all namespaces."""

    def pages(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing]:
        """Return all matching objects page by page, to limit memory. Raises Expired between two pages."""

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        """Create an object. Raises AlreadyExists. ``body`` may contain the namespace."""

    async def apply(self, kind: Kind, body: Object, *, field_manager: str, subresource: str = "") -> Object:
        """Apply an object on the server with force.

        The field manager then owns exactly the fields in ``body``.
        """

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
        """Send a merge or JSON patch. With ``metadata.resourceVersion`` in a merge patch, it may raise Conflict."""

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", *, uid: str = "", propagation: Propagation = "Background"
    ) -> None:
        """Delete an object. Raises NotFound, and Conflict if ``uid`` does not match."""

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Object) -> Object:
        """Create a subresource such as ``token`` or ``eviction``."""

    def stream(
        self,
        kind: Kind,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[Object]:
        """Read one raw watch connection with bookmarks until the server ends it.

        For a watch that reconnects, use ``watch.watch``.
        """

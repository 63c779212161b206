"""What the rest of Stoker asks of a Kubernetes API server.

The interface that the real client and its in-memory twin share.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from stoker_kube.resources import Kind

Object = dict[str, Any]  # one Kubernetes object, as JSON has it
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
    """Objects of one kind, and the resourceVersion from which a watch goes on."""

    items: Sequence[Object]
    resource_version: str


class Kube(Protocol):
    """An API server. Every method raises ``errors.KubeError`` and nothing else."""

    def as_bearer(self, token: str) -> "Kube":
        """Return the same API server asked with this token, which answers Unauthorized when the token has ended."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Read one object. Raises NotFound."""

    async def list(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Return all objects that match; an empty namespace means all namespaces."""

    def pages(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing]:
        """Return the same, a page at a time, so that a reader need not hold them all.

        Raises Expired between two pages.
        """

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        """Create an object. Raises AlreadyExists. The namespace may also stand in ``body``."""

    async def apply(self, kind: Kind, body: Object, *, field_manager: str, subresource: str = "") -> Object:
        """Apply on the server's side, by force.

        The fields in ``body`` are ours from now on, fields that we left out are given up.
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
        """Send a merge or JSON patch; ``metadata.resourceVersion`` in a merge patch makes it conditional (Conflict)."""

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", *, uid: str = "", propagation: Propagation = "Background"
    ) -> None:
        """Delete an object. Raises NotFound, and Conflict when ``uid`` is given and is another object's."""

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
        """Hold one raw watch connection with bookmarks, until the server ends it.

        Use ``watch.watch``, which never ends.
        """

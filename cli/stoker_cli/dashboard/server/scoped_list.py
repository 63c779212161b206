"""Lists of a kind in all namespaces, or in the namespace of the user if that is all that is allowed."""

from collections.abc import Callable, Sequence
from typing import Any

from stoker_cli.dashboard.core import cluster_data
from stoker_cli.dashboard.core.cluster_data import KindAccess
from stoker_kube.api import Kube, Object
from stoker_kube.errors import Expired, Forbidden, KubeError, NotFound
from stoker_kube.resources import Kind

Listed = tuple[Sequence[Any] | None, KindAccess]  # None: the last objects stay
Reduce = Callable[[Object], Any]


def resource_of(kind: Kind) -> str:
    """Return the name of a kind as in messages of the API server."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def failure(kind: Kind, error: KubeError) -> KindAccess:
    """Return the notice for a read that failed for another reason than a right."""
    if isinstance(error, NotFound):
        return KindAccess(f"The cluster does not serve {resource_of(kind)}. Is Stoker installed?")
    return KindAccess(f"{resource_of(kind)} cannot be read, so older ones are shown, if any: {error.message}")


class ScopedLister:
    """Lists kinds with namespaces, and remembers for which kinds only one namespace is allowed."""

    def __init__(self, client: Kube, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._narrow: set[Kind] = set()

    async def list(
        self, kind: Kind, label_selector: str = "", field_selector: str = "", reduce: Reduce = lambda item: item
    ) -> Listed:
        """Return the objects, and how they were read. Does not raise KubeError.

        ``reduce`` is called page by page, so that large objects are not in memory together. None: the object is left
        out.
        """
        try:
            return await self._list(kind, label_selector, field_selector, reduce)
        except Forbidden:
            self._narrow.discard(kind)  # rights may change
            notice = cluster_data.nothing_readable(resource_of(kind), self._namespace)
            return (), KindAccess(notice, read=True, refused=True)
        except KubeError as error:
            return None, failure(kind, error)

    async def _list(self, kind: Kind, label_selector: str, field_selector: str, reduce: Reduce) -> Listed:
        if kind not in self._narrow:
            try:
                items = await self._pages(kind, "", label_selector, field_selector, reduce)
            except Forbidden:
                self._narrow.add(kind)
            else:
                return items, KindAccess(read=True)
        items = await self._pages(kind, self._namespace, label_selector, field_selector, reduce)
        return items, KindAccess(cluster_data.only_one_namespace(resource_of(kind), self._namespace), read=True)

    async def _pages(self, kind: Kind, namespace: str, labels: str, fields: str, reduce: Reduce) -> Sequence[Any]:
        while True:
            pages = self._client.pages(kind, namespace, labels, fields)
            try:
                return [item async for page in pages for item in map(reduce, page.items) if item is not None]
            except Expired:  # compacted between two pages
                continue

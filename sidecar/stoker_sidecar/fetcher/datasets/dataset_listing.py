"""The listing of a dataset's source by this node: done once for each id that the operator gives."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import ListingResult
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.datasets.manifests import ListedSoFar, list_source
from stoker_sidecar.fetcher.datasets.node_context import NodeContext
from stoker_sidecar.fetcher.datasets.versions import OpenVersions
from stoker_sidecar.fetcher.ondisk.telemetry import Telemetry
from stoker_sidecar.fetcher.sources.piece_sources import StorePieceSource
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.listing import read_listing


class DatasetListing:
    """Listings of the dataset ``uid``: call ``load`` once. ``result``: of its last listing, or None."""

    def __init__(
        self, node: NodeContext, uid: str, source: StorePieceSource, versions: OpenVersions, telemetry: Telemetry
    ) -> None:
        self.result: ListingResult | None = None
        self._node = node
        self._uid = uid
        self._source = source
        self._versions = versions
        self._telemetry = telemetry
        self.waiting: SidecarError | None = None  # why the running listing pauses
        self._running: tuple[str, asyncio.Task[ListingResult]] | None = None  # the listing under way, and its id

    async def load(self) -> None:
        """Read the result of an earlier process."""
        self.result = await in_thread(read_listing, self._node.folders.home(self._uid).dataset)

    def want(self, listing_id: str) -> None:
        """End a running listing with a different id."""
        if self._running is not None and self._running[0] != listing_id:
            self._running[1].cancel()  # its result is not needed, and it may take hours

    def forget(self) -> None:
        """Forget the result, so that this node lists again."""
        self.result = None

    async def bring(self, config: NodeDataset) -> bool:
        """List, unless that was done. Return True if it was requested. Raises SidecarError."""
        wanted = config.listing_id
        if not wanted or (self.result is not None and self.result.id == wanted):
            return False
        try:
            await self._list(config)
        finally:
            self._node.news.set()  # mounts wait for its result or its error
        return True

    async def _list(self, config: NodeDataset) -> None:
        home, wanted = self._node.folders.home(self._uid), config.listing_id
        listed = ListedSoFar(self._telemetry, home.disk)

        def waits(error: SidecarError | None) -> None:
            if error is None or self.waiting is None:
                self.waiting = None if error is None else waiting_error(error, listed.objects, datetime.now(UTC))

        with self._versions.placing() as place:
            listing = await self._unless_another_is_wanted(
                wanted, list_source(self._source, config.source, home.dataset, wanted, place, listed.add, waits=waits)
            )
            if listing is not None:
                self.result = listing

    async def _unless_another_is_wanted(
        self, wanted: str, listing: Coroutine[None, None, ListingResult]
    ) -> ListingResult | None:
        """Return the result of a listing. None if a different listing was requested, for which the loop was poked."""
        self._running = wanted, asyncio.create_task(listing)
        try:
            return await self._running[1]
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is None or current.cancelling():
                raise  # the dataset is closed
            return None
        finally:
            self._running = self.waiting = None


def waiting_error(error: SidecarError, objects: int, since: datetime) -> SidecarError:
    """Return the sentence about a listing that waits for its source."""
    return type(error)(
        f"{error.message}; the listing has waited since {since:%H:%M:%S} UTC and continues after {objects:,} objects",
        reason=error.reason,
        temporary=True,
    )

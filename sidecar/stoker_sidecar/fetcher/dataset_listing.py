"""The listing of a dataset's source by this node: done once for each id that the operator gives."""

import asyncio
from collections.abc import Coroutine

from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import ListingResult
from stoker_sidecar.fetcher.context import NodeContext
from stoker_sidecar.fetcher.download.piece_sources import StorePieceSource
from stoker_sidecar.fetcher.manifests import ListedSoFar, list_source
from stoker_sidecar.fetcher.telemetry import Telemetry
from stoker_sidecar.fetcher.versions import OpenVersions
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.listing import read_listing


class DatasetListing:
    """Of the dataset ``uid``: ``load`` once; ``result`` is what its last listing found, None before there was one."""

    def __init__(
        self, node: NodeContext, uid: str, source: StorePieceSource, versions: OpenVersions, telemetry: Telemetry
    ) -> None:
        self.result: ListingResult | None = None
        self._node = node
        self._uid = uid
        self._source = source
        self._versions = versions
        self._telemetry = telemetry
        self._running: tuple[str, asyncio.Task[ListingResult]] | None = None  # the listing under way, and its id

    async def load(self) -> None:
        """Read what was found before this process began."""
        self.result = await in_thread(read_listing, self._node.folders.home(self._uid).dataset)

    def want(self, listing_id: str) -> None:
        """End a listing under way that has another id."""
        if self._running is not None and self._running[0] != listing_id:
            self._running[1].cancel()  # what it finds is not asked for any more, and it may take hours

    async def bring(self, config: NodeDataset) -> bool:
        """List, unless that was done; tell whether it was to be. Raises SidecarError."""
        wanted = config.listing_id
        if not wanted or (self.result is not None and self.result.id == wanted):
            return False
        try:
            await self._list(config)
        finally:
            self._node.news.set()  # who wants to mount waits for what it found, or why it fails
        return True

    async def _list(self, config: NodeDataset) -> None:
        home, wanted = self._node.folders.home(self._uid), config.listing_id
        listed = ListedSoFar(self._telemetry, home.disk)
        with self._versions.placing() as place:
            listing = await self._unless_another_is_wanted(
                wanted, list_source(self._source, config.source, home.dataset, wanted, place, listed.add)
            )
            if listing is not None:
                self.result = listing

    async def _unless_another_is_wanted(
        self, wanted: str, listing: Coroutine[None, None, ListingResult]
    ) -> ListingResult | None:
        """Return what a listing found; None when another one was asked for meanwhile, for which the loop was poked."""
        self._running = wanted, asyncio.create_task(listing)
        try:
            return await self._running[1]
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is None or current.cancelling():
                raise  # the dataset is closed
            return None
        finally:
            self._running = None

"""The room of one dataset on this node's disks: it requests room for its fetches, and gives room on request."""

import asyncio
from typing import Final

from stoker_sidecar.fetcher.datasets.versions import OpenVersions
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.telemetry import Telemetry
from stoker_sidecar.fetcher.space.budget import Evictor, SpaceBudget
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.wire.fetcher_protocol import EVICTIONS


class DatasetRoom:
    """The dataset's room."""

    def __init__(self, budget: SpaceBudget, versions: OpenVersions, evictor: Evictor, telemetry: Telemetry) -> None:
        self._budget: Final = budget
        self._versions: Final = versions
        self._evictor: Final = evictor
        self._telemetry: Final = telemetry

    async def make(self, fetching: Fetching, short: int) -> None:
        """Evict idle versions of other datasets. During the wait, answer requests to this dataset.

        One dataset asks at a time, and the dataset that is asked may itself wait for its turn. Without answers, both
        would wait. ``short``: bytes. Raises SidecarError.
        """
        disk = self._budget.disk_of(fetching.version)
        making = asyncio.create_task(self._evictor.make_room(self._budget, disk, short))
        try:
            while not making.done() and self._versions.is_open(fetching):
                asked = asyncio.create_task(self._budget.asked.wait())
                try:
                    await asyncio.wait((making, asked), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    asked.cancel()
                await self.give_if_asked()
        finally:
            making.cancel()
            await asyncio.wait([making])
        if not making.cancelled():
            making.result()

    async def give_if_asked(self) -> None:
        """Drop a version whose room another dataset needs, unless a pod uses it by now."""
        request = self._budget.take_request()
        if request is None:
            return
        if request.digest == self._budget.config.version:
            with disk_errors("the note of why it was dropped"):
                self._budget.last_use.drop(request.why)
            await self._versions.empty(request.digest)
        else:
            await self._versions.drop(request.digest)
        self._telemetry.add(EVICTIONS)
        request.done()

"""The number of pieces that a warm-up has in flight, from start to end, with a source of high concurrency."""

import asyncio
from pathlib import Path

from stoker_sidecar.fetcher.sources.core.concurrency import START
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.worker.transfer import Arrived, Fetched, Piece
from tests.support.cache_node import Clock, fill, open_cache_node

LATENCY = 0.020  # seconds of the node's clock
IDLE = 0.002  # seconds until all allowed requests have been sent


class Distant:
    """A PieceFetcher that answers all pending requests at the same moment, ``LATENCY`` later.

    It downloads no bytes.
    """

    def __init__(self) -> None:
        self.most = 0
        self.clock = Clock()
        self._waiting: list[asyncio.Future[Fetched]] = []

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """See PieceFetcher."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Fetched] = loop.create_future()
        self._waiting.append(answer)
        if len(self._waiting) == 1:
            loop.call_later(IDLE, self._answer)
        return await answer

    def forget(self, handle: StoreHandle) -> None:
        """See PieceFetcher."""

    def _answer(self) -> None:
        self.clock.ahead += LATENCY
        self.most = max(self.most, len(self._waiting))
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer.set_result(Fetched(published=True, md5="", etag_may_be_md5=False))


async def test_a_warm_up_from_a_distant_source_comes_to_have_more_in_flight(tmp_path: Path) -> None:
    distant = Distant()
    async with open_cache_node(tmp_path, fetcher=distant) as cache_node:
        distant.clock = cache_node.clock
        fill(cache_node.store, {f"{number:04}": b"x" for number in range(1500)})
        await cache_node.warm()
    assert distant.most >= 4 * START

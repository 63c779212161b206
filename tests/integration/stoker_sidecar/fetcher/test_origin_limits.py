"""The fetcher process within its share of a source, and with a source that asks for less, counted at the server."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_api.datasets.origin import NodeOrigin
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.wire.fetcher_protocol import Done, Shares
from tests.support.fault_proxy import Fault, FaultProxy, fault_proxy, refusal
from tests.support.fetcher_node import FetcherNode
from tests.support.fetcher_process import fetcher_process
from tests.support.s3 import S3Server

FILES = 150
SLOW_DOWN = refusal(503, "SlowDown")
# Requests per second that the server accepts before it asks for less, and those that a share allows.
TAKEN, SHARE = 40, 25


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    return asyncio.run(s3.bucket({f"f{number:03}": b"%03d" % number for number in range(FILES)}))


class CountedSource:
    """A proxy for the server, with the times of GETs. ``most`` per second get a good answer."""

    def __init__(self, proxy: FaultProxy, bucket: str) -> None:
        self.bucket = bucket
        self.endpoint = proxy.endpoint
        self.most = 10**9
        self.good: deque[float] = deque()
        self.asked: list[float] = []
        self.refused = 0
        proxy.fault = self._decide

    def _decide(self, path: str) -> Fault | None:
        if "?" in path:  # a listing
            return None
        now = time.monotonic()
        self.asked.append(now)
        while self.good and self.good[0] < now - 1:
            self.good.popleft()
        if len(self.good) >= self.most:
            self.refused += 1
            return SLOW_DOWN
        self.good.append(now)
        return None

    def in_any(self, seconds: float) -> int:
        """Return the requests of the busiest time span."""
        return max(sum(at <= one < at + seconds for one in self.asked) for at in self.asked)


@pytest.fixture
async def source(s3: S3Server, bucket: str) -> AsyncIterator[CountedSource]:
    async with fault_proxy(s3.endpoint) as proxy:
        yield CountedSource(proxy, bucket)


class WarmingNode(FetcherNode):
    """One fetcher that warms the whole bucket."""

    async def limit(self, requests: int) -> None:
        rows = ({"name": self._name, "milliRequestsPerSecond": 1000 * requests},)
        assert await self.process.ask(Shares(rows)) == Done()

    async def seconds_to_warm(self) -> float:
        """Warm it all. Return the seconds."""
        began = time.monotonic()
        await self.warm()
        await self.reach(NodePhase.WARM)
        return time.monotonic() - began

    @property
    def row(self) -> NodeOrigin:
        """Its report about the bucket."""
        rows = [NodeOrigin.model_validate(row) for row in self.process.progress.origins]
        return next(row for row in rows if row.name == self._name)

    @property
    def _name(self) -> str:
        return self.source["uri"].replace("s3:/", self.source["endpoint"])


@pytest.fixture
async def node(source: CountedSource, tmp_path: Path) -> AsyncIterator[WarmingNode]:
    place = {"uri": f"s3://{source.bucket}", "endpoint": source.endpoint}
    async with fetcher_process(tmp_path / "cache") as fetcher:
        node = WarmingNode(fetcher, tmp_path / "cache", place)
        await node.list_source()
        yield node


async def test_a_node_asks_for_no_more_requests_a_second_than_its_share(
    node: WarmingNode, source: CountedSource
) -> None:
    await node.limit(SHARE)

    seconds = await node.seconds_to_warm()

    assert len(source.asked) >= FILES
    # It may save a quarter of a second. A busy machine also delays some requests, which arrive with later ones.
    assert source.in_any(3.0) <= 1.5 * 3 * SHARE
    assert seconds >= 0.8 * FILES / SHARE
    assert node.row.fetching


async def test_a_source_that_asks_for_less_is_asked_for_less_until_it_has_enough(
    node: WarmingNode, source: CountedSource
) -> None:
    source.most = TAKEN

    await node.seconds_to_warm()

    half = source.asked[len(source.asked) // 2 :]
    assert source.refused > 0
    assert len(half) / (half[-1] - half[0]) <= 2 * TAKEN
    assert source.refused <= 3 * FILES
    assert node.row.throttled_at is not None
    assert node.process.progress.origin_counts.slowdowns > 0

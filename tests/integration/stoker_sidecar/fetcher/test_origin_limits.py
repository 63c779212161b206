"""The fetcher process within its share of a source, and before one that asks for less; counted at the server."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stoker_api.nodecache import NodePhase
from stoker_api.origin import NodeOrigin
from stoker_sidecar.wire.fetcher_protocol import Configure, Done, Shares
from tests.support.fault_proxy import Fault, FaultProxy, fault_proxy, refusal
from tests.support.fetcher_process import FetcherProcess, fetcher_process
from tests.support.s3 import CREDENTIALS, S3Server, running_s3

FILES = 150
SLOW_DOWN = refusal(503, "SlowDown")
# Requests a second that the server takes before it asks for less; and those that are asked for by a share.
TAKEN, SHARE = 40, 25


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    name = f"bucket-{uuid4().hex[:10]}"

    async def fill() -> None:
        async with s3.client() as client:
            await client.create_bucket(Bucket=name)
            keys = (f"f{number:03}" for number in range(FILES))
            await asyncio.gather(*(client.put_object(Bucket=name, Key=key, Body=key.encode()) for key in keys))

    asyncio.run(fill())
    return name


class CountedSource:
    """A proxy before the server, and when it was asked for objects; ``most`` of those a second are answered well."""

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
        """Return the requests of the span of time that had most of them."""
        return max(sum(at <= one < at + seconds for one in self.asked) for at in self.asked)


@pytest.fixture
async def source(s3: S3Server, bucket: str) -> AsyncIterator[CountedSource]:
    async with fault_proxy(s3.endpoint) as proxy:
        yield CountedSource(proxy, bucket)


class WarmingNode:
    """One fetcher that warms the whole bucket."""

    def __init__(self, fetcher: FetcherProcess, source: CountedSource) -> None:
        place = {"uri": f"s3://{source.bucket}", "endpoint": source.endpoint}
        self._dataset: dict[str, Any] = {"namespace": "n", "name": "set", "uid": "uid-1", "source": place}
        self._name = f"{source.endpoint}/{source.bucket}"
        self.fetcher = fetcher

    async def limit(self, requests: int) -> None:
        rows = ({"name": self._name, "milliRequestsPerSecond": 1000 * requests},)
        assert await self.fetcher.ask(Shares(rows)) == Done()

    async def list(self) -> str:
        await self._configure(listingId="1")
        status = await self.fetcher.reach(lambda status: bool(status.listing and status.listing.version))
        assert status.listing is not None
        return status.listing.version

    async def warm(self, version: str) -> float:
        """Warm it all; returns the seconds that took."""
        began = time.monotonic()
        await self._configure(listingId="1", version=version, eager=True)
        await self.fetcher.reach(lambda status: status.phase is NodePhase.WARM)
        return time.monotonic() - began

    @property
    def row(self) -> NodeOrigin:
        """What it says of the bucket."""
        rows = [NodeOrigin.model_validate(row) for row in self.fetcher.progress.origins]
        return next(row for row in rows if row.name == self._name)

    async def _configure(self, **changes: Any) -> None:
        assert await self.fetcher.ask(Configure(self._dataset | changes, CREDENTIALS)) == Done()


@pytest.fixture
async def node(source: CountedSource, tmp_path: Path) -> AsyncIterator[WarmingNode]:
    async with fetcher_process(tmp_path / "cache") as fetcher:
        yield WarmingNode(fetcher, source)


async def test_a_node_asks_for_no_more_requests_a_second_than_its_share(
    node: WarmingNode, source: CountedSource
) -> None:
    version = await node.list()
    await node.limit(SHARE)

    seconds = await node.warm(version)

    assert len(source.asked) >= FILES
    # It may save up a quarter of a second; and what a busy machine takes in late comes together with what is in time.
    assert source.in_any(3.0) <= 1.5 * 3 * SHARE
    assert seconds >= 0.8 * FILES / SHARE
    assert node.row.fetching


async def test_a_source_that_asks_for_less_is_asked_for_less_until_it_has_enough(
    node: WarmingNode, source: CountedSource
) -> None:
    version = await node.list()
    source.most = TAKEN

    await node.warm(version)

    half = source.asked[len(source.asked) // 2 :]
    assert source.refused > 0
    assert len(half) / (half[-1] - half[0]) <= 2 * TAKEN
    assert source.refused <= 3 * FILES
    assert node.row.throttled_at is not None
    assert node.fetcher.progress.origin_counts.slowdowns > 0

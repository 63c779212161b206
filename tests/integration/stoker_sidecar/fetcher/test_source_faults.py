"""The fetcher process with a failing source.

Right bytes or a clear error soon, a report of the fault, and automatic recovery.
"""

import asyncio
import errno
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.wire.fetcher_protocol import Failed
from tests.support.fault_proxy import (
    CUT,
    FLIPPED,
    GARBAGE,
    OTHER_ETAG,
    RANGE_IGNORED,
    RESET,
    RESET_IN_BODY,
    STALLED,
    Fault,
    FaultProxy,
    fault_proxy,
    refusal,
)
from tests.support.fetcher_node import FetcherNode
from tests.support.fetcher_process import fetcher_process
from tests.support.s3 import S3Server, put_in_parts
from tests.support.waiting import eventually_async

UID = "uid-1"
LARGE = bytes(range(256)) * (CHUNK // 256) + b"the second chunk"
FILES = {f"d/f{index:02}": b"%d " % index * 500 for index in range(1, 10)} | {"large": LARGE}
# Four attempts with a read timeout of half a second, and the pauses between them, on a busy machine.
SOON = 30.0


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    async def fill() -> str:
        name = await s3.bucket({key: data for key, data in FILES.items() if data is not LARGE})
        # In parts, as all large objects: its ETag does not prove its bytes.
        half = len(LARGE) // 2 + CHUNK // 8
        async with s3.client() as client:
            await put_in_parts(client, name, "large", [LARGE[:half], LARGE[half:]], "CRC64NVME", "FULL_OBJECT")
        return name

    return asyncio.run(fill())


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(s3.endpoint) as running:
        yield running


class ListedDataset(FetcherNode):
    """One fetcher and one listed dataset."""

    async def told(self, reason: Reason) -> str:
        status = await self.process.reach(lambda status: status.error is not None and status.error.reason == reason)
        assert status.error is not None
        return status.error.message

    async def read_all(self, path: str) -> bytes | Failed:
        async with asyncio.timeout(SOON):
            answer = await self.read(path, 0, len(FILES[path]))
        return answer if isinstance(answer, Failed) else self.content(answer)


@pytest.fixture
async def node(proxy: FaultProxy, bucket: str, tmp_path: Path, patience: str) -> AsyncIterator[ListedDataset]:
    source = {"uri": f"s3://{bucket}", "endpoint": proxy.endpoint}
    async with fetcher_process(tmp_path / "cache", "--read-timeout", "0.5", "--read-patience", patience) as fetcher:
        node = ListedDataset(fetcher, tmp_path / "cache", source)
        await node.list_source()
        yield node


@pytest.fixture
def patience() -> str:
    """Return the wait in seconds of a read from a temporarily failing source."""
    return "1"


@pytest.mark.parametrize(
    ("fault", "reason", "says"),
    [
        (refusal(503, "SlowDown", retry_after="1"), Reason.THROTTLED, "fewer requests"),
        (refusal(400, "ExpiredToken"), Reason.INVALID_CREDENTIALS, "expired"),
        (STALLED, Reason.ENDPOINT_UNREACHABLE, "imeout"),
        (CUT, Reason.ENDPOINT_UNREACHABLE, "broke off"),
        (RANGE_IGNORED, Reason.CORRUPT_BODY, "asked for"),
    ],
)
async def test_a_source_that_fails_is_told_refused_to_readers_and_got_over(
    node: ListedDataset, proxy: FaultProxy, fault: Fault, reason: Reason, says: str
) -> None:
    proxy.inject(fault)
    await node.warm()
    assert says in await node.told(reason)
    refused = await node.read_all("large")
    assert isinstance(refused, Failed)
    assert (refused.errno, refused.reason) == (errno.EIO, reason)
    assert node.tree() == {}
    proxy.heal()
    await node.reach(NodePhase.WARM)
    assert (node.tree(), node.unfinished()) == (FILES, [])


@pytest.mark.parametrize(("only", "algorithm"), [("d/", "crc32"), ("large", "crc64nvme")])
async def test_bits_that_flip_on_the_way_never_reach_the_tree(
    node: ListedDataset, proxy: FaultProxy, only: str, algorithm: str
) -> None:
    proxy.inject(FLIPPED, only=only)
    await node.warm()
    assert algorithm in await node.told(Reason.CORRUPT_BODY)
    assert node.tree().items() <= FILES.items()
    proxy.heal()
    await node.reach(NodePhase.WARM)
    assert (node.tree(), node.unfinished()) == (FILES, [])


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        (OTHER_ETAG, errno.ESTALE, Reason.SOURCE_CHANGED),
        (refusal(404, "NoSuchKey"), errno.ENOENT, Reason.OBJECT_GONE),
        (refusal(403, "AccessDenied"), errno.EIO, Reason.ACCESS_DENIED),
    ],
)
async def test_what_no_retry_heals_is_refused_at_once_until_it_is_back(
    node: ListedDataset, proxy: FaultProxy, fault: Fault, code: int, reason: Reason
) -> None:
    await node.mount()
    proxy.inject(fault, only="d/f02")
    refused = await node.read_all("d/f02")
    assert isinstance(refused, Failed)
    assert (refused.errno, refused.reason) == (code, reason)
    assert len([asked for asked in proxy.asked if "d/f02" in asked]) == 1
    proxy.heal()

    async def is_back() -> bool:
        return await node.read_all("d/f02") == FILES["d/f02"]

    await eventually_async(is_back, 20.0)  # a denied object gets its next request after some seconds


async def test_a_refused_read_names_its_dataset(node: ListedDataset, proxy: FaultProxy) -> None:
    await node.mount()
    proxy.inject(refusal(403, "AccessDenied"), only="d/f02")
    refused = await node.read_all("d/f02")
    assert isinstance(refused, Failed)
    assert refused.message.startswith("n/set: ")


async def test_one_spoilt_object_does_not_hold_up_the_others(node: ListedDataset, proxy: FaultProxy) -> None:
    proxy.inject(refusal(500, "InternalError"), only="f02")
    await node.warm()
    await node.told(Reason.SERVER_ERROR)
    assert await node.read_all("large") == LARGE
    proxy.heal()
    await node.reach(NodePhase.WARM)
    assert node.tree() == FILES


async def test_a_fault_of_a_moment_is_not_seen_by_a_reader(node: ListedDataset, proxy: FaultProxy) -> None:
    await node.mount()
    faults = (refusal(503, "SlowDown"), refusal(500), RESET, RESET_IN_BODY, CUT, GARBAGE, FLIPPED)
    for fault, path in zip(faults, FILES, strict=False):
        proxy.inject(fault, times=1)
        assert await node.read_all(path) == FILES[path]


@pytest.mark.parametrize("patience", ["60"])
@pytest.mark.parametrize("fault", [refusal(503, "ServiceUnavailable"), refusal(500, "InternalError"), RESET])
async def test_an_outage_of_many_requests_is_waited_for(node: ListedDataset, proxy: FaultProxy, fault: Fault) -> None:
    await node.mount()
    proxy.inject(fault, times=6)
    assert await node.read_all("large") == LARGE


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch"])
async def test_reads_with_refused_keys_cost_the_source_a_probe_now_and_then(
    node: ListedDataset, proxy: FaultProxy, code: str
) -> None:
    await node.mount()
    proxy.inject(refusal(403, code))
    assert isinstance(await node.read_all("d/f01"), Failed)
    before, began = len(proxy.asked), time.monotonic()
    for _ in range(20):
        refused = await node.read_all("d/f02")
        assert isinstance(refused, Failed)
        assert (refused.errno, refused.reason) == (errno.EIO, Reason.INVALID_CREDENTIALS)
    assert len(proxy.asked) - before <= 1 + (time.monotonic() - began)

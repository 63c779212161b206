"""The fetcher process under a failing source.

Right bytes or a clear error soon, the fault told, and recovery by itself.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stoker_api.names import Reason
from stoker_api.nodecache import NodeDatasetStatus, NodePhase
from stoker_sidecar.fetcher.download.parts import CHUNK
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.wire.fetcher_protocol import Configure, Done, Failed, Read, ReadDone
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
from tests.support.fetcher_process import FetcherProcess, fetcher_process
from tests.support.s3 import CREDENTIALS, S3Server, put_in_parts, running_s3

UID = "uid-1"
LARGE = bytes(range(256)) * (CHUNK // 256) + b"the second chunk"
FILES = {f"d/f{index:02}": b"%d " % index * 500 for index in range(1, 10)} | {"large": LARGE}
# Four attempts with a read timeout of half a second, and the pauses between them, on a busy machine.
SOON = 30.0


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
            small = {key: data for key, data in FILES.items() if data is not LARGE}
            await asyncio.gather(*(client.put_object(Bucket=name, Key=key, Body=data) for key, data in small.items()))
            # In parts, as all large objects are: its ETag says nothing about its bytes.
            half = len(LARGE) // 2 + CHUNK // 8
            parts = [LARGE[:half], LARGE[half:]]
            await put_in_parts(client, name, "large", parts, "CRC64NVME", "FULL_OBJECT")

    asyncio.run(fill())
    return name


@pytest.fixture
async def proxy(s3: S3Server) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(s3.endpoint) as running:
        yield running


class ListedDataset:
    """One fetcher and one dataset that it has listed."""

    def __init__(self, fetcher: FetcherProcess, root: Path, dataset: dict[str, Any]) -> None:
        self._fetcher = fetcher
        self._root = root
        self._dataset = dataset
        self._digest = ""

    async def list_once(self) -> None:
        await self._configure()
        status = await self._fetcher.reach(lambda status: status.listing is not None)
        assert status.listing is not None
        self._digest = status.listing.version

    async def warm(self) -> None:
        await self._configure(version=self._digest, eager=True)

    async def mount(self) -> None:
        await self._configure(version=self._digest)

    async def reach(self, phase: NodePhase) -> NodeDatasetStatus:
        return await self._fetcher.reach(lambda status: status.phase is phase)

    async def told(self, reason: Reason) -> str:
        status = await self._fetcher.reach(lambda status: status.error is not None and status.error.reason == reason)
        assert status.error is not None
        return status.error.message

    async def read(self, path: str) -> bytes | Failed:
        async with asyncio.timeout(SOON):
            answer = await self._fetcher.ask(Read(UID, self._digest, self._ino(path), 0, len(FILES[path])))
        if isinstance(answer, Failed):
            return answer
        assert isinstance(answer, ReadDone)
        return (self._version / answer.file).read_bytes()

    def on_disk(self) -> dict[str, bytes]:
        tree = self._version / "tree"
        return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}

    def left_over(self) -> list[Path]:
        return [path for path in self._root.rglob("*") if path.is_file() and path.parent.name in ("parts", "transient")]

    @property
    def _version(self) -> Path:
        return self._root / "datasets" / UID / "versions" / self._digest

    def _ino(self, path: str) -> int:
        manifest = Manifest.open(self._version / "manifest.sqlite")
        entry = manifest.find(path)
        manifest.close()
        assert entry is not None
        return entry.ino

    async def _configure(self, **changes: Any) -> None:
        assert await self._fetcher.ask(Configure(self._dataset | changes, CREDENTIALS)) == Done()


@pytest.fixture
async def node(proxy: FaultProxy, bucket: str, tmp_path: Path) -> AsyncIterator[ListedDataset]:
    source = {"uri": f"s3://{bucket}", "endpoint": proxy.endpoint}
    dataset = {"namespace": "n", "name": "set", "uid": UID, "source": source, "listingId": "1"}
    async with fetcher_process(tmp_path / "cache", "--read-timeout", "0.5") as fetcher:
        node = ListedDataset(fetcher, tmp_path / "cache", dataset)
        await node.list_once()
        yield node


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
    refused = await node.read("large")
    assert isinstance(refused, Failed)
    assert (refused.errno, refused.reason) == (errno.EIO, reason)
    assert node.on_disk() == {}
    proxy.heal()
    await node.reach(NodePhase.WARM)
    assert (node.on_disk(), node.left_over()) == (FILES, [])


@pytest.mark.parametrize(("only", "algorithm"), [("d/", "crc32"), ("large", "crc64nvme")])
async def test_bits_that_flip_on_the_way_never_reach_the_tree(
    node: ListedDataset, proxy: FaultProxy, only: str, algorithm: str
) -> None:
    proxy.inject(FLIPPED, only=only)
    await node.warm()
    assert algorithm in await node.told(Reason.CORRUPT_BODY)
    assert node.on_disk().items() <= FILES.items()
    proxy.heal()
    await node.reach(NodePhase.WARM)
    assert (node.on_disk(), node.left_over()) == (FILES, [])


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
    refused = await node.read("d/f02")
    assert isinstance(refused, Failed)
    assert (refused.errno, refused.reason) == (code, reason)
    assert len([asked for asked in proxy.asked if "d/f02" in asked]) == 1
    proxy.heal()
    assert await node.read("d/f02") == FILES["d/f02"]


async def test_one_spoilt_object_does_not_hold_up_the_others(node: ListedDataset, proxy: FaultProxy) -> None:
    proxy.inject(refusal(500, "InternalError"), only="f02")
    await node.warm()
    await node.told(Reason.SERVER_ERROR)
    assert await node.read("large") == LARGE
    proxy.heal()
    await node.reach(NodePhase.WARM)
    assert node.on_disk() == FILES


async def test_a_fault_of_a_moment_is_not_seen_by_a_reader(node: ListedDataset, proxy: FaultProxy) -> None:
    await node.mount()
    faults = (refusal(503, "SlowDown"), refusal(500), RESET, RESET_IN_BODY, CUT, GARBAGE, FLIPPED)
    for fault, path in zip(faults, FILES, strict=False):
        proxy.inject(fault, times=1)
        assert await node.read(path) == FILES[path]

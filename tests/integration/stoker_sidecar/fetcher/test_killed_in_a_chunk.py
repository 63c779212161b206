"""Workers killed in the middle of a chunk: complete chunks stay, and this one is fetched again."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.fetcher.sources.worker_pool import WorkerPool
from stoker_sidecar.store.connection import ConnectionSettings
from tests.support.cache_node import CacheNodeUnderTest, open_cache_node
from tests.support.storm import kind_of
from tests.support.waiting import eventually

CHUNKS = 40
_BLOCK = 1024 * 1024
_NOISE = os.urandom(_BLOCK - 8)
_RANGE = re.compile(r"range: bytes=(\d+)-(\d+)", re.IGNORECASE)
pytestmark = pytest.mark.expected_logs("ended with .* pieces in flight")


def block(number: int) -> bytes:
    """Return the MiB of the object with this number. All differ."""
    return number.to_bytes(8) + _NOISE


class HeldServer:
    """Answers ranges of the object. The body of the first chunk stops in its middle, once.

    ``asked`` has the ranges, as offset and length.
    """

    def __init__(self) -> None:
        self.endpoint = ""
        self.asked: list[tuple[int, int]] = []
        self.held = asyncio.Event()  # it has stopped there
        self.goes_on = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while found := _RANGE.search((await reader.readuntil(b"\r\n\r\n")).decode()):
                first, last = int(found[1]), int(found[2])
                self.asked.append((first, last + 1 - first))
                size = CHUNKS * CHUNK
                span = f"Content-Range: bytes {first}-{last}/{size}\r\nContent-Length: {last + 1 - first}"
                writer.write(f'HTTP/1.1 206 Partial\r\nETag: "e-1"\r\n{span}\r\n\r\n'.encode())
                for offset in range(first, last + 1, _BLOCK):
                    if first == 0 and offset >= CHUNK // 2 and not self.held.is_set():
                        self.held.set()
                        await self.goes_on.wait()
                    writer.write(block(offset // _BLOCK))
                    await writer.drain()
        writer.close()


@asynccontextmanager
async def held_server() -> AsyncIterator[HeldServer]:
    served = HeldServer()
    listening = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.endpoint = "http://{}:{}".format(*listening.sockets[0].getsockname())
    try:
        yield served
    finally:
        served.goes_on.set()
        listening.close()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


@pytest.mark.usefixtures("keys")
async def test_chunks_that_came_are_kept_and_the_held_one_is_asked_for_again(tmp_path: Path) -> None:
    pool = WorkerPool(2, ConnectionSettings(), asyncio.get_running_loop().time)
    await pool.open()
    try:
        async with held_server() as server, open_cache_node(tmp_path, fetcher=pool) as cache_node:
            digest = await begin(cache_node, server)
            await eventually(server.held.is_set, 60)
            await eventually(lambda: missing(cache_node, digest) == {0}, 60)
            asked = len(server.asked)
            killed = list(workers())
            assert len(killed) == 2
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            await eventually(lambda: cache_node.status().phase is NodePhase.WARM, 60)
            assert server.asked[asked:] == [(0, CHUNK)]
            with (cache_node.folder(digest) / "tree" / "large").open("rb") as file:
                assert all(file.read(_BLOCK) == block(number) for number in range(CHUNKS * CHUNK // _BLOCK))
    finally:
        await pool.close()


async def begin(cache_node: CacheNodeUnderTest, server: HeldServer) -> str:
    """Start to warm the object up. Return the digest."""
    cache_node.store.etag = lambda content: "e-1"
    cache_node.store.put("large", bytes(CHUNKS * CHUNK))  # only its length matters
    source = {"uri": "s3://bucket", "endpoint": server.endpoint}
    digest = await cache_node.list(source=source)
    await cache_node.configure(listingId="1", version=digest, eager=True, source=source)
    return digest


def missing(cache_node: CacheNodeUnderTest, digest: str) -> set[int]:
    """Return the chunks that are not recorded as local."""
    maps = list((cache_node.folder(digest) / "parts").glob("*.map"))
    here = maps[0].read_bytes() if maps else b""
    return {chunk for chunk in range(CHUNKS) if here[chunk : chunk + 1] != b"\1"}


def workers() -> Iterator[int]:
    """Yield the workers of this process: other tests of the session may have children too."""
    for children in Path("/proc/self/task").glob("*/children"):
        yield from (int(pid) for pid in children.read_text().split() if "worker" in kind_of(int(pid)))

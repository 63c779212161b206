"""The chunks of large files in a warm-up, from a source that sends holes."""

import asyncio
import os
from pathlib import Path

import pytest

from stoker_api.node_caches.node_dataset_status import NodePhase
from stoker_sidecar.errors import DiskFull
from stoker_sidecar.fetcher.ondisk.parts import CHUNK
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.worker.transfer import Arrived, Fetched, Piece
from tests.support.cache_node import CacheNodeUnderTest, open_cache_node

CHUNKS = 40


class Noting:
    """A PieceFetcher that records the requested chunks, and leaves holes instead of bytes.

    Only the first chunk of the file ``full`` fits.
    """

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.full = ""

    async def fetch(self, handle: StoreHandle, piece: Piece, arrived: Arrived) -> Fetched:
        """See PieceFetcher."""
        self.asked.append(piece.offset // CHUNK)
        await asyncio.sleep(0)
        if piece.key == self.full and piece.offset:
            raise DiskFull("no room for it")
        os.truncate(piece.into, piece.size)
        return Fetched(published=False, md5="", etag_may_be_md5=False, crc64nvme="0" * 16)

    def forget(self, handle: StoreHandle) -> None:
        """See PieceFetcher."""


def _fill(cache_node: CacheNodeUnderTest, path: str) -> None:
    cache_node.store.etag = lambda content: f"{len(content):x}-1"  # no MD5, which would take a second
    cache_node.store.put(path, bytes(CHUNKS * CHUNK))  # holes, whose pages are never touched


async def test_chunks_are_fetched_once_and_in_order(tmp_path: Path) -> None:
    noting = Noting()
    async with open_cache_node(tmp_path, fetcher=noting) as cache_node:
        _fill(cache_node, "a")
        await cache_node.warm()
    assert noting.asked == [*range(CHUNKS)]


@pytest.mark.expected_logs("no room for it")
async def test_a_disk_that_is_full_in_the_middle_of_a_file_ends_the_pass(tmp_path: Path) -> None:
    noting = Noting()
    noting.full = "a"
    async with open_cache_node(tmp_path, fetcher=noting) as cache_node:
        _fill(cache_node, "a")
        digest = await cache_node.list()
        await cache_node.configure(listingId="1", version=digest, eager=True)
        status = await cache_node.reach(lambda status: bool(status.error))
        assert status.phase is not NodePhase.WARM

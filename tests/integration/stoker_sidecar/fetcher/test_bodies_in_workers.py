"""Pieces that come by one GET, where several worker processes may be asked for them."""

import asyncio
from pathlib import Path

from stoker_api.dataset_source import Source
from stoker_sidecar.fetcher.download.worker_pool import WorkerPool
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.wire.credentials import Credentials
from stoker_sidecar.worker.transfer import Fetched, Piece
from tests.support.range_server import CONTENT, PIECE, range_server
from tests.support.s3 import CREDENTIALS


async def _never(source: Source, credentials: Credentials) -> ObjectStore:
    raise AssertionError("workers open their own stores")


async def test_the_worker_that_has_a_body_gets_the_next_piece_of_it(tmp_path: Path) -> None:
    pool = WorkerPool(2, ConnectionSettings(), asyncio.get_running_loop().time)
    async with range_server() as server:
        await pool.open()
        handle = StoreHandle(Source(uri="s3://bucket", endpoint=f"http://{server.address}"), CREDENTIALS, _never)

        def fetch(key: str, number: int) -> "asyncio.Task[Fetched]":
            size, ahead = len(CONTENT), len(CONTENT) - (number + 1) * PIECE
            piece = Piece(key, "e", "", number * PIECE, PIECE, str(tmp_path / key), "", size, 0, False, ahead)
            return asyncio.create_task(pool.fetch(handle, piece, lambda here: None))

        try:
            for number in range(4):
                keys = ("k", "l") if number % 2 else ("l", "k")  # so that the least busy one is another each time
                for key in keys:
                    (tmp_path / key).touch()
                await asyncio.gather(*(fetch(key, number) for key in keys))
        finally:
            await pool.close()
    assert [(tmp_path / key).read_bytes() for key in ("k", "l")] == [CONTENT, CONTENT]
    assert server.asked == [(0, len(CONTENT))] * 2

"""One contract for all piece fetchers: in the fetcher's own process, and in worker processes."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from awscrt.checksums import crc64nvme

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import CacheDiskFailed, ObjectGone, SourceChanged
from stoker_sidecar.fetcher.sources.origin_gate import OriginGate
from stoker_sidecar.fetcher.sources.piece_sources import InProcess, PieceFetcher, StorePieceSource
from stoker_sidecar.fetcher.sources.worker_pool import WorkerPool
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.folders.local import LocalStore
from stoker_sidecar.store.opening import StoreHandle
from stoker_sidecar.wire.credentials import AmbientCredentials, Credentials
from stoker_sidecar.worker.transfer import Fetched, Piece

CONTENT = os.urandom(3 * 1024 * 1024)
SMALL_CONTENT = CONTENT[:5000]
MTIME = 1_700_000_000_123_456_789


async def _open_store(source: Source, credentials: Credentials) -> ObjectStore:
    return LocalStore(Path(source.uri.removeprefix("file://")), ["/"])


@dataclass
class FolderFetcher:
    """Fetches pieces from a folder, and counts arriving bytes."""

    source: StorePieceSource
    folder: Path
    arrived: int = 0

    def piece(self, **changes: Any) -> Piece:
        """Make a piece that is all of the file ``large``, without the name of a new file."""
        status = (self.folder / "source" / "large").stat()
        etag = f"{status.st_mtime_ns:x}-{status.st_size:x}"
        into, size = str(self.folder / "into"), len(CONTENT)
        return Piece("large", etag, "", 0, size, into, "", size, MTIME, hashing=False)._replace(**changes)

    def small(self, **changes: Any) -> Piece:
        """Make a piece that is all of the file ``small``."""
        status = (self.folder / "source" / "small").stat()
        etag, size = f"{status.st_mtime_ns:x}-{status.st_size:x}", len(SMALL_CONTENT)
        return self.piece(key="small", etag=etag, length=size, size=size)._replace(**changes)

    async def fetch(self, piece: Piece) -> Fetched:
        """Fetch the piece. Count the arriving bytes."""

        def arrived(here: int) -> None:
            self.arrived = here

        return await self.source.fetch(piece, arrived)


@pytest.fixture(params=["in process", "workers"])
async def fetcher(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FolderFetcher]:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(CONTENT)
    (tmp_path / "source" / "small").write_bytes(SMALL_CONTENT)
    pool = WorkerPool(1, ConnectionSettings(host_folders=["/"]), asyncio.get_running_loop().time)
    work: PieceFetcher = InProcess()
    if request.param == "workers":
        await pool.open()
        work = pool
    handle = StoreHandle(Source(uri=f"file://{tmp_path}/source"), AmbientCredentials(), _open_store)
    source = StorePieceSource(handle, work, OriginGate(time.monotonic, time.time))
    yield FolderFetcher(source, tmp_path)
    await source.retire(handle)
    await pool.close()


async def test_a_whole_file_gets_its_name_and_date(fetcher: FolderFetcher) -> None:
    target = fetcher.folder / "target"
    fetched = await fetcher.fetch(fetcher.piece(target=str(target)))
    assert fetched.published
    assert target.read_bytes() == CONTENT
    assert (target.stat().st_mtime_ns, target.stat().st_mode & 0o777) == (MTIME, 0o444)
    assert fetcher.arrived == len(CONTENT)


async def test_a_small_file_gets_its_name_and_date_in_one_step(fetcher: FolderFetcher) -> None:
    target = fetcher.folder / "target"
    fetched = await fetcher.fetch(fetcher.small(target=str(target)))
    assert fetched.published
    assert target.read_bytes() == SMALL_CONTENT
    assert (target.stat().st_mtime_ns, target.stat().st_mode & 0o777) == (MTIME, 0o444)
    assert fetcher.arrived == len(SMALL_CONTENT)
    assert not (fetcher.folder / "into").exists()


async def test_a_small_file_without_a_name_to_get_stays_where_it_is_written(fetcher: FolderFetcher) -> None:
    fetched = await fetcher.fetch(fetcher.small())
    assert not fetched.published
    assert (fetcher.folder / "into").read_bytes() == SMALL_CONTENT


async def test_what_a_killed_worker_left_of_a_small_file_is_overwritten(fetcher: FolderFetcher) -> None:
    (fetcher.folder / "into").write_bytes(b"-" * 2 * len(SMALL_CONTENT))
    await fetcher.fetch(fetcher.small(target=str(fetcher.folder / "target")))
    assert (fetcher.folder / "target").read_bytes() == SMALL_CONTENT


async def test_a_piece_is_written_to_its_own_place(fetcher: FolderFetcher) -> None:
    into = fetcher.folder / "into"
    into.write_bytes(b"-" * 30)
    fetched = await fetcher.fetch(fetcher.piece(offset=10, length=10))
    assert not fetched.published
    assert into.read_bytes() == b"-" * 10 + CONTENT[10:20] + b"-" * 10
    assert fetched.crc64nvme == f"{crc64nvme(CONTENT[10:20]):016x}"


async def test_an_empty_file_needs_no_request(fetcher: FolderFetcher) -> None:
    target = fetcher.folder / "target"
    assert (await fetcher.fetch(fetcher.piece(key="not there", length=0, size=0, target=str(target)))).published
    assert target.read_bytes() == b""


async def test_errors_keep_their_kind_and_their_sentence(fetcher: FolderFetcher) -> None:
    with pytest.raises(SourceChanged, match="large was written after the listing"):
        await fetcher.fetch(fetcher.piece(etag="1-1"))
    with pytest.raises(ObjectGone, match="gone was deleted"):
        await fetcher.fetch(fetcher.piece(key="gone"))
    with pytest.raises(CacheDiskFailed) as caught:
        await fetcher.fetch(fetcher.piece(into=str(fetcher.folder / "no-folder" / "into")))
    assert caught.value.temporary


async def test_many_pieces_at_a_time_are_all_brought(fetcher: FolderFetcher) -> None:
    size = 64 * 1024
    (fetcher.folder / "into").touch()  # a part is made before its first piece arrives
    pieces = [fetcher.piece(offset=offset, length=size) for offset in range(0, len(CONTENT), size)]
    await asyncio.gather(*(fetcher.fetch(piece) for piece in pieces))
    assert (fetcher.folder / "into").read_bytes() == CONTENT


async def test_a_cancelled_fetch_writes_nothing_more(fetcher: FolderFetcher) -> None:
    task = asyncio.create_task(fetcher.fetch(fetcher.piece(target=str(fetcher.folder / "target"))))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    into = fetcher.folder / "into"
    into.unlink(missing_ok=True)
    await fetcher.fetch(fetcher.piece(into=str(fetcher.folder / "other")))  # it still works
    assert not into.exists()


async def test_a_part_that_someone_deleted_is_not_made_anew_with_holes(fetcher: FolderFetcher) -> None:
    with pytest.raises(CacheDiskFailed):
        await fetcher.fetch(fetcher.piece(offset=1, length=1, into=str(fetcher.folder / "deleted")))
    assert not (fetcher.folder / "deleted").exists()

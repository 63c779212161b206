"""One contract for all that fetch pieces: in the fetcher's own process, and in worker processes."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from awscrt.checksums import crc64nvme

from stoker_api.dataset import Source
from stoker_sidecar.errors import CacheDiskFailed, ObjectGone, SourceChanged
from stoker_sidecar.fetcher.download.worker_pool import WorkerPool
from stoker_sidecar.store.base import ObjectStore
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.local import LocalStore
from stoker_sidecar.wire.credentials import AmbientCredentials, Credentials
from stoker_sidecar.worker.pieces import Fetched, Piece, PieceFetcher
from stoker_sidecar.worker.store_handle import SourceHandle
from stoker_sidecar.worker.transfer import InProcess

CONTENT = os.urandom(3 * 1024 * 1024)
MTIME = 1_700_000_000_123_456_789


async def _open_store(source: Source, credentials: Credentials) -> ObjectStore:
    return LocalStore(Path(source.uri.removeprefix("file://")), ["/"])


@dataclass
class Subject:
    """A folder as the source, and a fetcher."""

    handle: SourceHandle
    folder: Path
    arrived: int = 0

    def piece(self, **changes: object) -> Piece:
        """All of the file ``large``, without a name to get."""
        status = (self.folder / "source" / "large").stat()
        etag = f"{status.st_mtime_ns:x}-{status.st_size:x}"
        into, size = str(self.folder / "into"), len(CONTENT)
        return Piece("large", etag, "", 0, size, into, "", size, MTIME, hashing=False)._replace(**changes)

    async def fetch(self, piece: Piece) -> Fetched:
        """Counts what arrives."""

        def arrived(size: int) -> None:
            self.arrived += size

        return await self.handle.fetch(piece, arrived)


@pytest.fixture(params=["in process", "workers"])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(CONTENT)
    pool = WorkerPool(1, ConnectionSettings(host_folders=["/"]), asyncio.get_running_loop().time)
    fetcher: PieceFetcher = InProcess()
    if request.param == "workers":
        await pool.open()
        fetcher = pool
    handle = SourceHandle(Source(uri=f"file://{tmp_path}/source"), AmbientCredentials(), _open_store, fetcher)
    yield Subject(handle, tmp_path)
    await handle.aclose()
    await pool.close()


async def test_a_whole_file_gets_its_name_and_date(subject: Subject) -> None:
    target = subject.folder / "target"
    fetched = await subject.fetch(subject.piece(target=str(target)))
    assert fetched.published
    assert target.read_bytes() == CONTENT
    assert (target.stat().st_mtime_ns, target.stat().st_mode & 0o777) == (MTIME, 0o444)
    assert subject.arrived == len(CONTENT)


async def test_a_piece_is_written_to_its_own_place(subject: Subject) -> None:
    into = subject.folder / "into"
    into.write_bytes(b"-" * 30)
    fetched = await subject.fetch(subject.piece(offset=10, length=10))
    assert not fetched.published
    assert into.read_bytes() == b"-" * 10 + CONTENT[10:20] + b"-" * 10
    assert fetched.crc64nvme == f"{crc64nvme(CONTENT[10:20]):016x}"


async def test_an_empty_file_needs_no_request(subject: Subject) -> None:
    target = subject.folder / "target"
    assert (await subject.fetch(subject.piece(key="not there", length=0, size=0, target=str(target)))).published
    assert target.read_bytes() == b""


async def test_errors_keep_their_kind_and_their_sentence(subject: Subject) -> None:
    with pytest.raises(SourceChanged, match="large was written after the listing"):
        await subject.fetch(subject.piece(etag="1-1"))
    with pytest.raises(ObjectGone, match="gone was deleted"):
        await subject.fetch(subject.piece(key="gone"))
    with pytest.raises(CacheDiskFailed) as caught:
        await subject.fetch(subject.piece(into=str(subject.folder / "no-folder" / "into")))
    assert caught.value.temporary


async def test_many_pieces_at_a_time_are_all_brought(subject: Subject) -> None:
    size = 64 * 1024
    (subject.folder / "into").touch()  # a part is made before its first piece comes
    pieces = [subject.piece(offset=offset, length=size) for offset in range(0, len(CONTENT), size)]
    await asyncio.gather(*(subject.fetch(piece) for piece in pieces))
    assert (subject.folder / "into").read_bytes() == CONTENT


async def test_a_cancelled_fetch_writes_nothing_more(subject: Subject) -> None:
    task = asyncio.create_task(subject.fetch(subject.piece(target=str(subject.folder / "target"))))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    into = subject.folder / "into"
    into.unlink(missing_ok=True)
    await subject.fetch(subject.piece(into=str(subject.folder / "other")))  # it still works
    assert not into.exists()


async def test_a_part_that_someone_deleted_is_not_made_anew_with_holes(subject: Subject) -> None:
    with pytest.raises(CacheDiskFailed):
        await subject.fetch(subject.piece(offset=1, length=1, into=str(subject.folder / "deleted")))
    assert not (subject.folder / "deleted").exists()

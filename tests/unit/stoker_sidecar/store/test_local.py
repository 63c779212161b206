"""A folder as a source while someone changes it, and with what is neither file nor folder."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.errors import AccessDenied, CorruptBody, FolderNotFound, ObjectGone
from stoker_sidecar.store.local import LocalStore


async def _listed(root: Path) -> list[bytes]:
    return sorted([found.path async for page in LocalStore(root, [str(root)]).list() for found in page])


@pytest.fixture
def before_the_second_folder(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return what has something happen when a listing has read the names of its first folder."""

    def arrange(happens: Callable[[], object]) -> None:
        scandir, times = os.scandir, iter([False, True])

        def noted(folder: int) -> object:
            entries = list(scandir(folder))
            if not next(times, True):
                happens()
            return _Entries(entries)

        monkeypatch.setattr(os, "scandir", noted)

    return arrange


class _Entries(list[os.DirEntry[str]]):
    """What scandir gives: entries, and a context."""

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *_: object) -> None:
        pass


async def test_a_subfolder_that_is_deleted_during_a_listing_is_left_out(
    tmp_path: Path, before_the_second_folder: Callable[[Callable[[], object]], None]
) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "file").touch()
    before_the_second_folder((tmp_path / "gone").rmdir)
    assert await _listed(tmp_path) == [b"file"]


async def test_the_folder_itself_is_named_when_it_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FolderNotFound, match=str(tmp_path / "missing")):
        await _listed(tmp_path / "missing")


async def test_a_link_that_leads_out_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "out").symlink_to("/etc/hostname")
    with pytest.raises(AccessDenied, match="out is reached by a symbolic link"):
        await _listed(tmp_path)


async def test_pipes_are_neither_listed_nor_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "file").touch()
    assert await _listed(tmp_path) == [b"file"]


async def test_a_file_that_became_a_pipe_is_gone_and_no_reader_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    with pytest.raises(ObjectGone):
        async with LocalStore(tmp_path, [str(tmp_path)]).get_range("file", 0, 1, if_match=""):
            pass


class _AfterEachRead(ThreadPoolExecutor):
    """Has something happen when a thread has read, before the event loop hears of it."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__(1)
        self._happens = happens

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> "Future[Any]":
        def run() -> object:
            result = work(*arguments, **options)
            self._happens()
            return result

        return super().submit(run)


async def test_a_file_that_is_another_for_a_moment_of_a_read_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"good")
    listed = file.stat()

    def put_back() -> None:
        file.write_bytes(b"good")
        os.utime(file, ns=(listed.st_mtime_ns, listed.st_mtime_ns))

    got: list[bytes | memoryview] = []
    async with LocalStore(tmp_path, [str(tmp_path)]).get_range("f", 0, 4, if_match=_etag_of(file)) as body:
        file.write_bytes(b"evil")
        asyncio.get_running_loop().set_default_executor(_AfterEachRead(put_back))
        with pytest.raises(CorruptBody, match="f was written while it was read") as raised:
            await body.stream(got.append)
    assert (got, raised.value.temporary) == ([], True)


async def test_a_date_that_was_set_back_before_the_read_counts_as_the_listed_one(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"good")
    before, etag = file.stat(), _etag_of(file)
    file.chmod(0o600)  # as rename and link do, it changes the ctime, and not what is in the file
    os.utime(file, ns=(before.st_mtime_ns, before.st_mtime_ns))
    got: list[bytes | memoryview] = []
    async with LocalStore(tmp_path, [str(tmp_path)]).get_range("f", 0, 4, if_match=etag) as body:
        await body.stream(got.append)
    assert got == [b"good"]


def _etag_of(file: Path) -> str:
    return f"{file.stat().st_mtime_ns:x}-{file.stat().st_size:x}"

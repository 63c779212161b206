"""A folder as a source while it changes, and with entries other than files and folders."""

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stoker_sidecar.errors import AccessDenied, CorruptBody, FolderNotFound, ObjectGone
from stoker_sidecar.store.folders.folder_walk import FolderWalk, folder_identity
from stoker_sidecar.store.folders.local import LocalStore
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.objects import SkipReason


async def _listed(root: Path) -> list[bytes]:
    return sorted([found.path async for page in LocalStore(root, [str(root)]).list() for found in page])


@pytest.fixture
def before_the_second_folder(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return a function that schedules a call between the reads of the first and the second folder of a listing."""

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
    """The result of scandir: entries, and a context."""

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
    """Calls ``happens`` after each read in the thread, before the event loop gets the result."""

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
        with pytest.raises(CorruptBody, match="f changed while it was read") as raised:
            await body.stream(got.append)
    assert (got, raised.value.temporary) == ([], True)


async def test_a_date_that_was_set_back_before_the_read_counts_as_the_listed_one(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"good")
    before, etag = file.stat(), _etag_of(file)
    file.chmod(0o600)  # like rename and link, it changes the ctime, but not the content
    os.utime(file, ns=(before.st_mtime_ns, before.st_mtime_ns))
    got: list[bytes | memoryview] = []
    async with LocalStore(tmp_path, [str(tmp_path)]).get_range("f", 0, 4, if_match=etag) as body:
        await body.stream(got.append)
    assert got == [b"good"]


def _etag_of(file: Path) -> str:
    return f"{file.stat().st_mtime_ns:x}-{file.stat().st_size:x}"


async def _digest(root: Path, path: Path, allowed: Path) -> str:
    with ManifestBuilder(root / "manifest") as builder:
        async for page in LocalStore(path, [str(allowed)]).list():
            builder.add(page)
        return builder.finish().digest


def _archive(folder: Path, content: bytes) -> Path:
    """Make a folder like one from an archive with fixed times."""
    folder.mkdir()
    (folder / "labels").write_bytes(content)
    os.utime(folder / "labels", ns=(0, 0))
    return folder


async def test_another_folder_with_the_same_names_sizes_and_times_is_another_version(tmp_path: Path) -> None:
    old, new = _archive(tmp_path / "v1", b"OLD-1"), _archive(tmp_path / "v2", b"NEW-2")
    assert await _digest(tmp_path, old, tmp_path) != await _digest(tmp_path, new, tmp_path)


async def test_a_link_that_leads_to_another_folder_now_is_another_version(tmp_path: Path) -> None:
    old, new = _archive(tmp_path / "v1", b"OLD-1"), _archive(tmp_path / "v2", b"NEW-2")
    current = tmp_path / "current"
    current.symlink_to(old)
    before = await _digest(tmp_path, current, tmp_path)
    current.unlink()
    current.symlink_to(new)
    assert await _digest(tmp_path, current, tmp_path) != before


async def test_the_same_folder_is_the_same_version(tmp_path: Path) -> None:
    folder = _archive(tmp_path / "v1", b"OLD-1")
    assert await _digest(tmp_path, folder, tmp_path) == await _digest(tmp_path, folder, tmp_path)


def test_nodes_that_mount_a_shared_folder_elsewhere_behind_the_same_path_agree() -> None:
    here = folder_identity("/mnt/nfs/current", "/mnt/nfs/v2", ["/mnt/nfs"])
    there = folder_identity("/mnt/nfs/current", "/var/mnt/nfs/v2", ["/var/mnt/nfs", "/var"])
    assert here == there


async def test_a_file_of_a_version_that_an_earlier_release_listed_is_still_read(tmp_path: Path) -> None:
    folder = _archive(tmp_path / "v1", b"OLD-1")
    store = LocalStore(folder, [str(tmp_path)])
    got: list[bytes | memoryview] = []
    async with store.get_range("labels", 0, 5, if_match="0-5", version_id="") as body:
        await body.stream(got.append)
    assert got == [b"OLD-1"]


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of folders that cannot be opened. Permissions would not stop root."""
    names: set[str] = set()
    opened = os.open

    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_DIRECTORY and Path(path).readlink().name in names:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    return names


async def test_a_folder_that_may_not_be_read_costs_only_itself(tmp_path: Path, forbidden: set[str]) -> None:
    for folder in ("a", "m", "z"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").touch()
    forbidden.add("m")
    pages = [page async for page in LocalStore(tmp_path, [str(tmp_path)]).list()]
    found = {one.path: one.skipped for page in pages for one in page}
    assert found == {b"a/file": None, b"m/": SkipReason.UNREADABLE, b"z/file": None}


async def test_files_in_a_folder_that_may_not_be_entered_cost_only_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").touch()
    (tmp_path / "open").touch()
    asked = FolderWalk._status

    def refuse(walk: FolderWalk, entry: os.DirEntry[str], folder: int) -> os.stat_result | None:
        if entry.name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied")
        return asked(walk, entry, folder)

    monkeypatch.setattr(FolderWalk, "_status", refuse)
    pages = [page async for page in LocalStore(tmp_path, [str(tmp_path)]).list()]
    assert {one.path: one.skipped for page in pages for one in page} == {
        b"closed": SkipReason.UNREADABLE,
        b"open": None,
    }


async def test_a_source_that_may_not_be_read_at_all_is_an_error(tmp_path: Path, forbidden: set[str]) -> None:
    forbidden.add(tmp_path.name)
    with pytest.raises(AccessDenied, match="grant read access"):
        await _listed(tmp_path)


async def test_a_file_in_place_of_a_folder_is_answered_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "x.tar").touch()
    with pytest.raises(
        FolderNotFound, match=f"is a file, not a folder: write file://{tmp_path}/ and source.include 'x.tar'"
    ):
        await _listed(tmp_path / "x.tar")

"""A folder as a source while someone changes it, and with what is neither file nor folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_sidecar.errors import AccessDenied, FolderNotFound, ObjectGone
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

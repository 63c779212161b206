"""Folders that a file:// source may use."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import AccessDenied
from stoker_sidecar.store.base import ObjectStore, Retry
from stoker_sidecar.store.connection import ConnectionSettings
from stoker_sidecar.store.folders.folder_walk import lies_beneath
from stoker_sidecar.store.opening import open_store
from stoker_sidecar.wire.credentials import AmbientCredentials, FolderGrant


async def _opened(folder: Path, *allowed: Path, granted: Sequence[Path] | None = None) -> ObjectStore:
    settings = ConnectionSettings(host_folders=[str(one) for one in allowed])
    whose = AmbientCredentials() if granted is None else FolderGrant(tuple(map(str, granted)))
    return await open_store(Source(uri=f"file://{folder}"), whose, settings, Retry(asyncio.sleep))


async def test_no_folder_is_read_when_none_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(AccessDenied, match=r"ask the administrator to name it, .* sidecar.hostFolders"):
        await _opened(tmp_path)


@pytest.mark.parametrize("folder", ["/var/lib/stoker/cache", "/etc", "/proc/self/fd", "/"])
async def test_folders_beside_the_allowed_one_are_refused(folder: str, tmp_path: Path) -> None:
    with pytest.raises(AccessDenied):
        await _opened(Path(folder), tmp_path)


async def test_what_is_not_there_is_refused_in_the_same_words(tmp_path: Path) -> None:
    with pytest.raises(AccessDenied):
        await _opened(tmp_path / "missing")


async def test_the_allowed_folder_and_those_beneath_it_are_opened(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    await _opened(tmp_path, tmp_path)
    await _opened(tmp_path / "a", tmp_path)


async def test_a_namespace_reads_beneath_what_it_was_granted_alone(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    (ours / "across").symlink_to(theirs)
    await _opened(ours, ours, theirs, granted=[ours])
    for folder in (theirs, ours / "across", ours):
        with pytest.raises(AccessDenied, match="to Datasets of this namespace"):
            await _opened(folder, ours, theirs, granted=[] if folder == ours else [ours])


async def test_a_grant_of_a_folder_that_the_process_was_not_given_opens_nothing(tmp_path: Path) -> None:
    with pytest.raises(AccessDenied):
        await _opened(tmp_path, granted=[tmp_path])


async def test_an_allowed_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    await _opened(tmp_path / "link", tmp_path / "link")


async def test_a_source_that_is_a_link_out_of_the_allowed_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "out").symlink_to("/proc/self/fd")
    with pytest.raises(AccessDenied):
        await _opened(tmp_path / "allowed" / "out", tmp_path / "allowed")


@pytest.mark.parametrize(
    ("path", "beneath"),
    [("/a", True), ("/a/b", True), ("/ab", False), ("/", False), ("/memfd:x (deleted)", False), ("pipe:[1]", False)],
)
def test_a_path_lies_beneath_a_folder_by_whole_names(path: str, beneath: bool) -> None:
    assert lies_beneath(path, ["/a"]) is beneath

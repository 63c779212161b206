"""The agent finds a version in any cache folder, and prefers one where it can be read in full."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker_sidecar.errors import CacheDiskFailed, ManifestInvalid
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.linux.hardware import boot_id
from stoker_sidecar.version.layout import CachePaths
from stoker_sidecar.volumes import versions_on_disk
from stoker_sidecar.volumes.versions_on_disk import CacheFolders, OpenedFolders
from tests.support.versions import VersionFolder

FILES = {"a": b"alpha"}


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    return [tmp_path / "one", tmp_path / "two"]


def _put(root: Path, *, complete: bool = False) -> str:
    made = VersionFolder(root / "making", FILES)
    target = root / "datasets" / "u1" / "versions" / made.info.digest
    target.parent.mkdir(parents=True)
    made.folder.rename(target)
    if complete:
        (target / "complete").touch()
    return made.info.digest


def test_a_version_is_found_in_any_folder(roots: list[Path]) -> None:
    digest = _put(roots[1])
    found = CacheFolders(roots).find("u1", digest)
    assert found is not None
    assert found.folder.is_relative_to(roots[1])


def test_a_version_that_is_nowhere_is_not_found(roots: list[Path]) -> None:
    assert CacheFolders(roots).find("u1", "0" * 64) is None


def test_the_complete_one_of_two_is_taken(roots: list[Path]) -> None:
    digest = _put(roots[0])
    _put(roots[1], complete=True)
    found = CacheFolders(roots).find("u1", digest)
    assert found is not None
    assert found.complete


def test_a_version_that_started_anew_beside_a_failed_folder_is_not_complete_any_more(roots: list[Path]) -> None:
    digest = _put(roots[0], complete=True)
    _put(roots[1])
    found = CacheFolders(roots, in_service=lambda root: root != roots[0]).find("u1", digest)
    assert found is not None
    assert not found.complete


def test_what_went_through_a_whole_manifest_gives_its_memory_back_when_it_is_done(
    roots: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    story: list[str] = []
    monkeypatch.setattr(versions_on_disk, "give_back_memory", lambda: story.append("given back"))
    folders, paths = CacheFolders(roots), CachePaths(roots[0]).dataset("u1").version(_put(roots[0]))
    folders.go_through(lambda found: story.append("read"), paths)
    with pytest.raises(ZeroDivisionError):
        folders.go_through(lambda found: 1 // 0, paths)
    assert story == ["read", "given back", "given back"]


def test_a_disk_that_refuses_every_call_hides_no_other(
    roots: list[Path], refusing_disk: Callable[[Path], None]
) -> None:
    digest = _put(roots[1])
    refusing_disk(roots[0])
    found = CacheFolders(roots).find("u1", digest)
    assert found is not None
    assert found.folder.is_relative_to(roots[1])


def test_what_lies_on_a_disk_that_refuses_every_call_is_not_found(
    roots: list[Path], refusing_disk: Callable[[Path], None]
) -> None:
    digest = _put(roots[0], complete=True)
    refusing_disk(roots[0])
    assert CacheFolders(roots).find("u1", digest) is None


def test_what_lies_in_a_failed_folder_alone_is_still_found(roots: list[Path]) -> None:
    digest = _put(roots[0], complete=True)
    assert CacheFolders(roots, in_service=lambda root: False).find("u1", digest) is not None


@pytest.mark.parametrize("target", ["/etc/passwd", "elsewhere"])
def test_a_link_in_place_of_a_manifest_is_not_followed(roots: list[Path], target: str) -> None:
    digest = _put(roots[0])
    manifest = roots[0] / "datasets" / "u1" / "versions" / digest / "manifest.sqlite"
    manifest.rename(manifest.with_name("elsewhere"))
    manifest.symlink_to(target)
    with pytest.raises(CacheDiskFailed, match="is not a file that can be read"):
        CacheFolders(roots).find("u1", digest)


def test_a_link_that_comes_after_the_look_at_the_manifest_is_not_followed(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = _put(roots[0])
    with ThreadPoolExecutor(1) as others:
        others.submit(str).result()  # starts its thread before the confinement

        def lose(path: Path) -> None:
            path.rename(tmp_path / "elsewhere.sqlite")
            path.symlink_to(tmp_path / "elsewhere.sqlite")

        def look_and_lose(root: Path, path: Path) -> int:
            descriptor = open_file_beneath(root, path)
            others.submit(lose, path).result()
            return descriptor

        monkeypatch.setattr(versions_on_disk, "open_file_beneath", look_and_lose)
        with pytest.raises(ManifestInvalid):
            CacheFolders(roots, confined=True).find("u1", digest)
    assert (tmp_path / "elsewhere.sqlite").exists()


def test_a_folder_that_was_made_anew_is_read_by_threads_that_may(roots: list[Path]) -> None:
    digest = _put(roots[0])
    folders = CacheFolders(roots, confined=True)
    before = folders.find("u1", digest)
    roots[0].rename(roots[0].with_name("old"))
    _put(roots[0])
    assert before == folders.find("u1", digest)


@pytest.mark.parametrize(("boot", "found"), [(None, False), ("an earlier boot", False), ("", False), (boot_id(), True)])
def test_nothing_is_found_on_a_disk_that_was_not_opened_in_this_boot(
    roots: list[Path], boot: str | None, found: bool
) -> None:
    digest = _put(roots[0])
    if boot is not None:
        (roots[0] / "boot").write_text(boot)
    folders = CacheFolders(roots, opened=OpenedFolders())
    assert (folders.find("u1", digest) is not None) is found


def test_a_pipe_in_place_of_the_boot_id_holds_up_nobody(roots: list[Path]) -> None:
    digest = _put(roots[0])
    os.mkfifo(roots[0] / "boot")
    assert CacheFolders(roots, opened=OpenedFolders()).find("u1", digest) is None


def test_a_version_is_not_found_until_its_files_are_checked(roots: list[Path]) -> None:
    digest = _put(roots[0])
    marker = CachePaths(roots[0]).dataset("u1").version(digest).doubtful
    marker.touch()
    before = CacheFolders(roots).find("u1", digest)
    marker.unlink()
    assert (before, CacheFolders(roots).find("u1", digest) is not None) == (None, True)

"""A deleted cache folder is created again. A folder that fails for another reason is left alone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker_api.node_caches.node_storage import CacheFolder
from stoker_sidecar.agent.planning.cache_roots import restore_missing


def _owned(tmp_path: Path) -> Path:
    (tmp_path / "fetcher.sock").touch()
    return tmp_path / "fetcher.sock"


@pytest.mark.expected_logs("was deleted, and is made again")
def test_a_deleted_folder_is_made_again_for_the_fetcher(tmp_path: Path) -> None:
    owner, folder = _owned(tmp_path), tmp_path / "a" / "cache"
    restore_missing([CacheFolder(path=str(folder), healthy=False)], owner)
    assert folder.is_dir()
    assert folder.stat().st_uid == owner.stat().st_uid


def test_a_folder_in_service_is_not_touched(tmp_path: Path) -> None:
    restore_missing([CacheFolder(path=str(tmp_path / "cache"))], _owned(tmp_path))
    assert not (tmp_path / "cache").exists()


@pytest.mark.expected_logs("cannot be made again")
def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    restore_missing([CacheFolder(path=str(tmp_path / "file" / "cache"), healthy=False)], _owned(tmp_path))


def test_a_folder_on_a_disk_that_refuses_every_call_is_left_alone(
    tmp_path: Path, refusing_disk: Callable[[Path], None]
) -> None:
    owner, folder = _owned(tmp_path), tmp_path / "disk" / "cache"
    refusing_disk(folder.parent)
    restore_missing([CacheFolder(path=str(folder), healthy=False)], owner)
    assert not os.path.lexists(tmp_path / "disk")

"""Leftovers of a killed fetcher in a cache folder, at the start of the next one."""

import time
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.version.layout import CachePaths
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR
from tests.support.cache_node import open_cache_node
from tests.support.waiting import eventually

LEFT = ("trash/a/file", "transients/x/part", "datasets/u1/manifest.building", "datasets/u1/manifest.building.listing")
KEPT = ("datasets/u1/versions/d1/manifest.sqlite", "datasets/u1/used")


@pytest.fixture
def left(tmp_path: Path) -> Path:
    for name in (*LEFT, *KEPT):
        file = tmp_path / CachePaths(tmp_path).transients.name / "x" / "part" if "part" in name else tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 10)
    return tmp_path


def _below(folder: Path, *but: str) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in but
    }


def _disk(root: Path) -> CacheDisk:
    return CacheDisk(CachePaths(root), NO_FLOOR, time.monotonic)


def test_opening_deletes_nothing_so_that_readers_need_not_wait(left: Path) -> None:
    _disk(left).open()
    assert _below(left, "trash") == {*KEPT, "boot"}
    assert len([path for path in (left / "trash").rglob("*") if path.is_file()]) == len(LEFT)


def test_what_was_thrown_away_is_deleted_files_and_folders(left: Path) -> None:
    disk = _disk(left)
    disk.open()
    disk.empty_trash()
    assert list((left / "trash").iterdir()) == []


def test_a_disk_that_is_back_keeps_the_list_that_is_being_made_on_it(left: Path) -> None:
    _disk(left).open(returned=True)
    assert (left / "datasets" / "u1" / "manifest.building").exists()


async def test_a_node_deletes_it_beside_its_work(left: Path) -> None:
    async with open_cache_node(left):
        await eventually(lambda: not list((left / "trash").iterdir()))

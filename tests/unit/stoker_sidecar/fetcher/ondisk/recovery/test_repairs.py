"""Damaged files that readers have open, and notices of repairs."""

import asyncio
import os
from pathlib import Path

import pytest

from stoker_sidecar.fetcher.ondisk.recovery.repairs import DamagedFile, Repairs
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry


async def test_repairs_of_one_version_are_told_from_the_first_on_as_they_happen() -> None:
    repairs = Repairs()
    repairs.add("u", "d", 5)
    repairs.add("u", "other", 6)
    told = repairs.follow("u", "d")
    assert await anext(told) == 5
    later = asyncio.ensure_future(anext(told))
    await asyncio.sleep(0)
    repairs.add("u", "d", 7)
    assert await later == 7


def _entry(size: int, mtime_ns: int = 0) -> Entry:
    return Entry(2, 1, b"f", False, size, mtime_ns, "", "")


def test_a_file_that_took_no_other_inode_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"damaged")
    with DamagedFile(VersionPaths(tmp_path), path, _entry(7)) as damaged:
        assert damaged.heal()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"damaged", 0o444)


def test_an_old_inode_of_another_length_gets_the_bytes_and_date_of_the_new_one(tmp_path: Path) -> None:
    path, fresh = tmp_path / "f", tmp_path / "fresh"
    path.write_bytes(b"damaged and too long")
    fresh.write_bytes(b"right")
    with path.open("rb") as reader, DamagedFile(VersionPaths(tmp_path), path, _entry(5, 10**18)) as damaged:
        fresh.rename(path)
        assert damaged.heal()
        assert (reader.read(), os.fstat(reader.fileno()).st_mtime_ns) == (b"right", 10**18)


@pytest.mark.parametrize("there", [b"short", None])
def test_a_new_one_that_is_not_whole_or_gone_mends_nothing(tmp_path: Path, there: bytes | None) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"damaged")
    with path.open("rb") as reader, DamagedFile(VersionPaths(tmp_path), path, _entry(7)) as damaged:
        path.unlink()
        if there is not None:
            path.write_bytes(there)
        assert not damaged.heal()
        damaged.empty()
        assert reader.read() == b""
    assert list((tmp_path / "damaged").iterdir()) == []

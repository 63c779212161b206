"""Compressed copies in a FUSE server: any range, in bounded memory, with many readers at a time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker_sidecar.fuse.packed_files import PackedFiles
from stoker_sidecar.version.seekable import FRAME
from tests.support.versions import VersionFolder

DATA = os.urandom(1000) * 600  # five frames, the last one short
PATH = "shard"


@pytest.fixture
def version(tmp_path: Path) -> VersionFolder:
    made = VersionFolder(tmp_path / "v", {PATH: DATA})
    made.pack(PATH)
    return made


@pytest.fixture
def packed() -> Iterator[PackedFiles]:
    made = PackedFiles()
    yield made
    made.close()


def read(packed: PackedFiles, version: VersionFolder, offset: int, length: int) -> bytes:
    copy, ino = bytes(version.copy(PATH)), version.ino(PATH)
    return trio.run(packed.read, copy, ino, len(DATA), offset, min(length, len(DATA) - offset))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 3 * FRAME))
def test_any_span_is_the_files(packed: PackedFiles, version: VersionFolder, offset: int, length: int) -> None:
    assert read(packed, version, offset, length) == DATA[offset : offset + length]


def test_many_readers_of_many_files_get_their_own_bytes(packed: PackedFiles, tmp_path: Path) -> None:
    files = {f"{number}": os.urandom(100) * (1400 + number) for number in range(100)}
    version = VersionFolder(tmp_path / "many", files)
    for path in files:
        version.pack(path)
    wrong = []

    async def one(path: str) -> None:
        copy, ino, size = bytes(version.copy(path)), version.ino(path), len(files[path])
        for offset in (0, size // 2, 7):
            if await packed.read(copy, ino, size, offset, 5000) != files[path][offset : offset + 5000]:
                wrong.append(path)

    async def all_of_them() -> None:
        async with trio.open_nursery() as nursery:
            for path in files:
                nursery.start_soon(one, path)

    trio.run(all_of_them)
    assert wrong == []
    assert packed.kept_bytes <= 32 * FRAME


def test_a_copy_that_is_gone_is_not_found_and_one_that_came_back_is_read(
    packed: PackedFiles, version: VersionFolder
) -> None:
    version.copy(PATH).unlink()
    with pytest.raises(FileNotFoundError):
        read(packed, version, 0, 10)
    version.pack(PATH)
    assert read(packed, version, 0, 10) == DATA[:10]


def test_a_copy_that_is_forgotten_is_opened_anew(packed: PackedFiles, version: VersionFolder) -> None:
    assert read(packed, version, 0, 10) == DATA[:10]
    version.copy(PATH).unlink()
    packed.forget(version.ino(PATH))
    with pytest.raises(FileNotFoundError):
        read(packed, version, 0, 10)

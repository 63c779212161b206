"""Layouts and model files' kinds, from versions on a disk."""

import asyncio
import json
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stoker_sidecar.agent.dataset_layouts import DatasetLayouts, read_layout
from stoker_sidecar.agent.model_heads import ModelHeads, kind_of_file
from stoker_sidecar.linux.landlock import abi, shortcoming
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.vocabulary import ModelFileKind
from tests.fakes.volumes import UID
from tests.support.csi_driver import write_version
from tests.support.waiting import eventually

_HEADER = json.dumps({"model.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
SAFETENSORS = struct.pack("<Q", len(_HEADER)) + _HEADER + bytes(4)
FILES = {"train/a.jpg": b"1", "train/b.jpg": b"22", "checkpoint.pt": SAFETENSORS, "weights.bin": b"no model at all"}


@pytest.fixture
def version(tmp_path: Path) -> VersionPaths:
    info = write_version(tmp_path / "cache", FILES)
    return CachePaths(tmp_path / "cache").dataset(UID).version(info.digest)


def ino_of(layout: DatasetLayout, path: str) -> int:
    return next(ino for ino, file in layout.model_files.items() if file.path == path)


def test_a_layout_has_the_manifests_files_by_inode(version: VersionPaths) -> None:
    layout = read_layout(version, by_chunk=False)
    assert layout is not None
    assert sum(run.files for run in layout.runs) == 2
    assert {file.path for file in layout.model_files.values()} == {"checkpoint.pt", "weights.bin"}


def test_a_model_file_is_what_its_bytes_are(version: VersionPaths) -> None:
    assert kind_of_file(version, "checkpoint.pt") is not ModelFileKind.UNKNOWN


@pytest.mark.parametrize("path", ["../../../../../secret", "link", "pipe", "missing"])
def test_nothing_but_a_file_of_the_version_is_opened(version: VersionPaths, path: str) -> None:
    (version.root / "secret").write_bytes(SAFETENSORS)
    (version.tree / "link").symlink_to(version.root / "secret")
    os.mkfifo(version.tree / "pipe")
    with pytest.raises(OSError, match=r"."):
        kind_of_file(version, path)


@asynccontextmanager
async def running(part: DatasetLayouts | ModelHeads) -> AsyncIterator[None]:
    task = asyncio.create_task(part.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_layout_is_made_once_when_someone_asks_for_it(version: VersionPaths) -> None:
    layouts, key = DatasetLayouts(CacheFolders([version.root])), (UID, version.folder.name)
    async with running(layouts):
        assert layouts.get(key, by_chunk=False) is None
        await eventually(lambda: layouts.get(key, by_chunk=False) is not None, 30)
        assert layouts.get(key, by_chunk=False) is layouts.get(key, by_chunk=False)
        layouts.retain([])
        assert layouts.get(key, by_chunk=False) is None


async def test_a_version_that_is_not_there_has_no_layout_and_is_asked_for_once(version: VersionPaths) -> None:
    layouts, gone = DatasetLayouts(CacheFolders([version.root])), (UID, "0" * 64)
    async with running(layouts):
        layouts.get(gone, by_chunk=True)
        layouts.get((UID, version.folder.name), by_chunk=True)
        await eventually(lambda: layouts.get((UID, version.folder.name), by_chunk=True) is not None, 30)
        assert layouts.get(gone, by_chunk=True) is None


async def test_an_opened_model_file_is_corrected_by_its_bytes(version: VersionPaths) -> None:
    layout = read_layout(version, by_chunk=False)
    assert layout is not None
    ino = ino_of(layout, "weights.bin")
    (version.tree / "weights.bin").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1))
    layout.model_files[ino] = layout.model_files[ino]._replace(kind=ModelFileKind.METADATA)
    heads = ModelHeads(CacheFolders([version.root]))
    async with running(heads):
        heads.opened((UID, version.folder.name), layout, ino)
        await eventually(lambda: layout.model_files[ino].kind is ModelFileKind.WEIGHTS, 30)


async def test_threads_that_are_held_to_the_caches_look_at_model_files(version: VersionPaths) -> None:
    layout = read_layout(version, by_chunk=False)
    assert layout is not None
    folders, ino = CacheFolders([version.root], confined=True), ino_of(layout, "weights.bin")
    (version.tree / "weights.bin").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1))
    layout.model_files[ino] = layout.model_files[ino]._replace(kind=ModelFileKind.METADATA)
    heads = ModelHeads(folders)
    async with running(heads):
        heads.opened((UID, version.folder.name), layout, ino)
        await eventually(lambda: layout.model_files[ino].kind is ModelFileKind.WEIGHTS, 30)


@pytest.mark.skipif(bool(shortcoming(abi())), reason="the kernel has no Landlock")
def test_no_file_beside_the_caches_is_looked_at_by_these_threads(version: VersionPaths, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1))
    folders = CacheFolders([version.root], confined=True)
    with pytest.raises(PermissionError):
        folders.read(lambda paths: (paths.folder / "model.gguf").read_bytes(), VersionPaths(tmp_path))


def test_a_layout_that_nobody_waits_for_is_not_finished(tmp_path: Path) -> None:
    info = write_version(tmp_path / "cache", {f"train/{number}.jpg": b"" for number in range(5000)})
    version = CachePaths(tmp_path / "cache").dataset(UID).version(info.digest)
    layout = read_layout(version, by_chunk=False, ended=lambda: True)
    assert layout is not None
    assert sum(run.files for run in layout.runs) < 5000

"""Layouts and model file types, from versions on a disk."""

import json
import os
import struct
from pathlib import Path

import pytest

from stoker_sidecar.agent.observation.training.dataset_layouts import DatasetLayouts
from stoker_sidecar.agent.observation.training.model_heads import ModelHeads
from stoker_sidecar.helpers.reader.answers import kind_of_file, read_layout
from stoker_sidecar.linux.sandbox.landlock import abi, shortcoming
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.reader_protocol import KindsQuestion
from stoker_tuning.training.layout import DatasetLayout
from stoker_tuning.vocabulary import ModelFileKind
from tests.fakes.volumes import UID
from tests.support.csi_driver import write_version
from tests.support.tasks import background
from tests.support.version_readers import InProcessReader
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


async def test_a_layout_is_made_once_when_someone_asks_for_it(version: VersionPaths) -> None:
    layouts, key = DatasetLayouts(CacheFolders([version.root]), InProcessReader()), (UID, version.folder.name)
    async with background(layouts.run()):
        assert layouts.get(key, by_chunk=False) is None
        await eventually(lambda: layouts.get(key, by_chunk=False) is not None, 30)
        assert layouts.get(key, by_chunk=False) is layouts.get(key, by_chunk=False)
        layouts.retain([])
        assert layouts.get(key, by_chunk=False) is None


async def test_a_version_that_is_not_there_has_no_layout_and_is_asked_for_once(version: VersionPaths) -> None:
    layouts, gone = DatasetLayouts(CacheFolders([version.root]), InProcessReader()), (UID, "0" * 64)
    async with background(layouts.run()):
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
    heads = ModelHeads(CacheFolders([version.root]), InProcessReader())
    async with background(heads.run()):
        heads.opened((UID, version.folder.name), layout, ino)
        await eventually(lambda: layout.model_files[ino].kind is ModelFileKind.WEIGHTS, 30)


async def test_model_files_that_are_opened_together_take_one_question(version: VersionPaths) -> None:
    layout, reader = read_layout(version, by_chunk=False), InProcessReader()
    assert layout is not None
    heads = ModelHeads(CacheFolders([version.root]), reader)
    async with background(heads.run()):
        for ino in layout.model_files:
            heads.opened((UID, version.folder.name), layout, ino)
        await eventually(lambda: bool(reader.asked), 30)
    (question,) = reader.asked
    assert isinstance(question, KindsQuestion)
    assert sorted(question.paths) == ["checkpoint.pt", "weights.bin"]


@pytest.mark.skipif(bool(shortcoming(abi())), reason="the kernel has no Landlock")
def test_no_file_beside_the_caches_is_looked_at_by_these_threads(version: VersionPaths, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1))
    folders = CacheFolders([version.root], confined=True)
    with pytest.raises(PermissionError):
        folders.read(lambda paths: (paths.folder / "model.gguf").read_bytes(), VersionPaths(tmp_path))

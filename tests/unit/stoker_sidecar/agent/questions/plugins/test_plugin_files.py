"""Files that plug-ins are asked about, and the effect of their answers on a version."""

import asyncio
import os
from pathlib import Path

import pytest

from stoker_plugins.framework_question import FileHead
from stoker_sidecar.agent.observation.training.model_heads import ModelHeads
from stoker_sidecar.agent.questions.plugins.plugin_files import PluginFiles, read_heads
from stoker_sidecar.helpers.reader.answers import read_layout
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.frameworks.answers import PluginAnswer
from stoker_tuning.vocabulary import ModelFileKind
from tests.fakes.volumes import UID
from tests.support.csi_driver import write_version
from tests.support.tasks import background
from tests.support.version_readers import InProcessReader
from tests.support.waiting import eventually

FILES = {f"train/{number}.jpg": b"x" for number in range(5)} | {"last.odd": b"odd" * 100, "train.py": b"import odd"}


class OddPlugin:
    """Classifies files that end with .odd as weights."""

    def __init__(self) -> None:
        self.asked: list[FileHead] = []

    async def ask(self, files: list[FileHead]) -> list[PluginAnswer]:
        self.asked += files
        sure = tuple(0.9 * file.path.endswith(".odd") for file in files)
        kinds = tuple(ModelFileKind.WEIGHTS if one else ModelFileKind.UNKNOWN for one in sure)
        return [PluginAnswer("odd", sure, {}, (), (), kinds)]


@pytest.fixture
def version(tmp_path: Path) -> VersionPaths:
    info = write_version(tmp_path / "cache", FILES)
    return CachePaths(tmp_path / "cache").dataset(UID).version(info.digest)


def inos(version: VersionPaths) -> dict[str, int]:
    manifest = Manifest.open(version.manifest)
    try:
        return {path.decode(): entry.ino for path, entry in manifest.walk() if not entry.is_dir}
    finally:
        manifest.close()


async def soon(seconds: float) -> None:
    await asyncio.sleep(0)


async def test_an_opened_file_tells_the_framework_and_becomes_a_model_file(version: VersionPaths) -> None:
    layout, plugin, key = read_layout(version, by_chunk=False), OddPlugin(), (UID, version.folder.name)
    assert layout is not None
    folders = CacheFolders([version.root])
    files = PluginFiles(folders, plugin.ask, soon)
    before = sum(run.files for run in layout.runs)
    async with background(files.run()):
        for ino in inos(version).values():
            ModelHeads(folders, InProcessReader(), files).opened(key, layout, ino)
        await eventually(lambda: bool(files.frameworks), 30)
    assert files.frameworks == {key: "odd"}
    (model,) = layout.model_files.values()
    assert (model.path, model.kind) == ("last.odd", ModelFileKind.WEIGHTS)
    assert sum(run.files for run in layout.runs) == before - 1
    assert sorted(file.path for file in plugin.asked if file.path.endswith(".py")) == ["train.py"]


async def test_a_version_that_is_not_mounted_any_more_is_forgotten(version: VersionPaths) -> None:
    layout, plugin, key = read_layout(version, by_chunk=False), OddPlugin(), (UID, version.folder.name)
    assert layout is not None
    files = PluginFiles(CacheFolders([version.root]), plugin.ask, soon)
    async with background(files.run()):
        files.opened(key, layout, inos(version)["last.odd"])
        await eventually(lambda: bool(files.frameworks), 30)
        files.retain([])
    assert files.frameworks == {}


def test_two_files_of_an_ending_are_enough(version: VersionPaths) -> None:
    heads = read_heads(version, list(inos(version).values()), {})
    assert sorted(Path(head.file.path).suffix for head in heads) == [".jpg", ".jpg", ".odd", ".py"]
    again = read_heads(version, list(inos(version).values()), {".jpg": 2, ".odd": 1, ".py": 2})
    assert [head.file.path for head in again] == ["last.odd"]


def test_what_is_not_on_the_disk_or_no_file_is_left_out(version: VersionPaths) -> None:
    (version.tree / "last.odd").unlink()
    (version.tree / "train.py").unlink()
    os.mkfifo(version.tree / "train.py")
    (version.root / "secret").write_bytes(b"secret")
    (version.tree / "last.odd").symlink_to(version.root / "secret")
    assert {Path(head.file.path).suffix for head in read_heads(version, list(inos(version).values()), {})} == {".jpg"}


def test_a_number_that_is_no_files_is_left_out(version: VersionPaths) -> None:
    assert read_heads(version, [0, 1, 10**6], {}) == []

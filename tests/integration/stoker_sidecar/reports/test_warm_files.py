"""A pod's sampler reads its node's list of warm files: a real manifest and tree, agent's file, and client's mount."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_client import GlobalShuffleSampler, QualityRatioSampler, WarmFirstSampler
from stoker_client.warm_files import WarmFiles
from stoker_sidecar.agent.pods.warm_file_list import (
    MOST_BYTES,
    WarmFileList,
    encode,
    file_name,
    read_snapshot,
    write_beneath,
)
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.core.report_volume import ReportVolume
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from tests.fakes.volumes import UID, publish_request
from tests.support.csi_driver import write_version

POD = "uid-trainer-0"
CLASSES = ("cat", "dog", "é")
FILES = {f"train/{name}/{number:03d}.jpg": b"x" for name in CLASSES for number in range(37)} | {"readme.md": b"x"}
SAMPLES = sorted(name for name in FILES if name.endswith(".jpg"))


@dataclass
class Pods:
    """The report volumes of a node."""

    volumes: tuple[ReportVolume, ...]

    def all(self) -> tuple[ReportVolume, ...]:
        return self.volumes


@dataclass
class Images:
    """A dataset in the layout of torchvision's ImageFolder."""

    mount: Path
    samples: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.samples = [(str(self.mount / name), 0) for name in SAMPLES]

    def __len__(self) -> int:
        return len(self.samples)


@dataclass
class Node:
    """A version that is partly local, its pod, and a clock."""

    folder: Path
    now: float = 0.0

    def __post_init__(self) -> None:
        info = write_version(self.folder / "cache", FILES, complete=False)
        self.version = self.folder / "cache" / "datasets" / UID / "versions" / info.digest
        self.shown = self.folder / "shown"  # the pod's view: all names, local or not
        for name in FILES:
            (self.shown / name).parent.mkdir(parents=True, exist_ok=True)
            (self.shown / name).touch()
        (self.folder / "reports" / POD).mkdir(parents=True)
        request = publish_request()
        row = Published(request, UID, info.digest, self.version, len(FILES), 1, MountMode.FUSE, True)
        pods = Pods((ReportVolume("v", self.folder / "t", "vision", "trainer-0", POD),))
        cache = CacheFolders([self.folder / "cache"])
        self.teller = WarmFileList(pods, lambda: [row], cache, self.folder / "reports", lambda: self.now)

    @property
    def told(self) -> Path:
        return self.folder / "reports" / POD / "imagenet.warm"

    def keep(self, names: list[str]) -> None:
        """Keep only these files on the disk."""
        for name in FILES:
            (self.version / "tree" / name).unlink(missing_ok=True)
        for name in names:
            (self.version / "tree" / name).write_bytes(b"x")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setenv("STOKER_REPORT_SOCKET", str(tmp_path / "reports" / POD / "report.sock"))
    return Node(tmp_path)


@pytest.fixture
def mount(node: Node) -> Iterator[Path]:
    target = node.folder / "mnt"
    target.mkdir()
    subprocess.run(["mount", "--bind", str(node.shown), str(target)], check=True)
    yield target
    subprocess.run(["umount", str(target)], check=True)


def read_by(sampler: WarmFirstSampler) -> list[str]:
    """Return the names of an epoch's reads."""
    return [SAMPLES[index] for index in sampler]


@pytest.mark.root
async def test_what_is_warm_is_read_first_and_asked_anew_each_epoch(node: Node, mount: Path) -> None:
    data = Images(mount)
    sampler = WarmFirstSampler(data, rank=0, world_size=1)
    plain = list(GlobalShuffleSampler(data, rank=0, world_size=1))
    assert list(sampler) == plain  # without any report
    node.keep(SAMPLES[10:50])
    await node.teller.look()
    order = read_by(sampler)
    assert set(order[:40]) == set(SAMPLES[10:50])
    assert sorted(order) == SAMPLES
    node.keep(SAMPLES[60:65])
    node.now += 1000
    await node.teller.look()
    assert set(read_by(sampler)[:5]) == set(SAMPLES[60:65])
    whole = QualityRatioSampler(data, 1.0, rank=0, world_size=1)
    assert set(read_by(whole)[:5]) == set(SAMPLES[60:65])


@pytest.mark.root
async def test_an_epoch_goes_on_as_it_began(node: Node, mount: Path) -> None:
    data = Images(mount)
    node.keep(SAMPLES[:30])
    await node.teller.look()
    began = WarmFirstSampler(data, rank=0, world_size=1)
    order = list(began)
    state = began.state_dict(50)
    node.keep(SAMPLES)
    node.now += 1000
    await node.teller.look()
    resumed = WarmFirstSampler(data, rank=0, world_size=1)
    resumed.load_state_dict(state)
    assert list(resumed) == order[50:]


@pytest.mark.root
async def test_a_folder_that_is_another_than_the_node_means_is_not_warm(node: Node, mount: Path) -> None:
    (node.shown / "train" / "cat" / "zz.jpg").touch()
    node.keep(SAMPLES)
    await node.teller.look()
    warm = WarmFiles([path for path, _ in Images(mount).samples]).now()
    assert warm is not None
    assert [name for index, name in enumerate(SAMPLES) if warm(index)] == SAMPLES[37:]


async def test_it_is_renewed_when_it_is_due_and_until_all_is_warm(node: Node) -> None:
    node.keep(SAMPLES[:1])
    await node.teller.look()
    first = node.told.read_bytes()
    node.keep([*FILES])
    await node.teller.look()
    assert node.told.read_bytes() == first
    (node.version / "complete").touch()
    node.now += 1000
    await node.teller.look()
    whole = node.told.read_bytes()
    assert whole != first
    node.keep([])
    node.now += 1000
    await node.teller.look()
    assert node.told.read_bytes() == whole
    assert sorted(path.name for path in node.told.parent.iterdir()) == ["imagenet.warm"]
    assert node.told.stat().st_mode & 0o777 == 0o644


async def test_of_what_was_whole_from_the_start_nothing_is_written(node: Node) -> None:
    (node.version / "complete").touch()
    await node.teller.look()
    assert not node.told.exists()


async def test_no_link_of_whoever_else_writes_there_is_followed(node: Node) -> None:
    secret = node.folder / "secret"
    secret.write_text("mine")
    (node.told.parent / "imagenet.warm.new").symlink_to(secret)
    node.told.symlink_to(secret)
    await node.teller.look()
    assert secret.read_text() == "mine"
    assert not node.told.is_symlink()
    (node.folder / "reports" / "other").symlink_to(node.folder)
    with pytest.raises(OSError, match="symbolic links"):
        write_beneath(node.folder / "reports", "other", "x.warm", b"")


def test_a_million_files_take_a_bit_each_and_what_is_too_large_is_not_written() -> None:
    folders = [(f"train/n{number:08d}", 1300) for number in range(1000)]
    assert len(encode(folders, bytes(1_300_000 // 8))) < 200_000
    assert encode([("x" * 1000, 1)] * 5000, b"") == b""
    assert MOST_BYTES == 4 * 1024**2


@pytest.mark.parametrize("name", ["", "a/b", "x" * 300])
def test_a_name_that_cannot_be_a_files_is_none(name: str) -> None:
    assert file_name(name) is None


@pytest.mark.parametrize("content", [b"", b"{}", b'{"v":1,"folders":3}\n', b"\xff\n", b'{"folders":[["a"]]}\n\x00'])
def test_a_file_that_is_no_answer_is_none(node: Node, content: bytes) -> None:
    node.told.write_bytes(content)
    assert WarmFiles([os.fspath(node.shown / SAMPLES[0])]).now() is None


def test_a_snapshot_counts_files_folder_by_folder(node: Node) -> None:
    paths = CacheFolders([node.folder / "cache"]).paths(UID, node.version.name)
    assert paths is not None
    snapshot = read_snapshot(paths, ended=lambda: False)
    assert not snapshot.is_whole
    assert snapshot.content.startswith(b'{"v":1,"folders":[["",1],["train/cat",37],["train/dog",37],')

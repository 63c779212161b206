"""A native mount through a read-only layer, and the agent's handling of it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import fanotify
from stoker_sidecar.linux.mounts import mountinfo, overlay, target_mounts
from stoker_sidecar.volumes.core.lost_mounts import lost_mounts
from stoker_sidecar.volumes.layers.overlays import Overlays
from tests.support.keeper import clear_mounts, mounts_below

pytestmark = pytest.mark.root
UID, DIGEST = "uid-of-the-dataset", "d1" * 32


class Node:
    """A cache folder with one version, and a pod's volume. ``pods`` and ``mount_root`` are as on a node."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache, with: odd \\ letters"
        self.tree = self.cache / "datasets" / UID / "versions" / DIGEST / "tree"
        (self.tree / "train").mkdir(parents=True)
        self.file = self.tree / "train" / "file"
        self.file.write_text("native")
        self.mount_root = folder / "mnt"
        self.pods = folder / "pods"
        self.target = self.pods / "uid-of-the-pod" / "volumes" / "kubernetes.io~csi" / "data" / "mount"
        self.target.mkdir(parents=True)

    def bind(self) -> None:
        """Show the version to the pod."""
        target_mounts.bind(self.tree, self.target, self.cache, self.mount_root)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    yield Node(tmp_path)
    clear_mounts(tmp_path)


def test_files_are_seen_and_nothing_stays_of_the_way_to_the_mount(node: Node) -> None:
    node.bind()
    assert (node.target / "train" / "file").read_text() == "native"
    assert (mounts_below(node.mount_root), list(node.mount_root.iterdir())) == ([], [])


def test_neither_setuid_nor_devices_are_allowed(node: Node) -> None:
    node.bind()
    assert {"ro", "nosuid", "nodev"} <= set(target_mounts.layers(node.target)[-1].options)


def test_names_come_in_the_order_of_the_disk(node: Node) -> None:
    for number in range(500):
        (node.tree / f"{number * 7919}").touch()
    node.bind()
    assert os.listdir(node.target) == os.listdir(node.tree)  # noqa: PTH208 -- the order is what is tested


def test_all_files_have_the_device_of_the_root(node: Node) -> None:
    node.bind()
    assert (node.target / "train" / "file").stat().st_dev == node.target.stat().st_dev


def test_a_new_layer_shows_a_file_that_was_replaced_below_the_old_one(node: Node) -> None:
    node.bind()
    (node.target / "train" / "file").read_text()
    node.file.with_name("draft").write_text("repaired")
    node.file.with_name("draft").rename(node.file)
    node.bind()
    assert (node.target / "train" / "file").read_text() == "repaired"


def test_a_link_in_the_cache_folder_is_not_followed(node: Node, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    node.tree.rename(node.tree.with_name("moved"))
    node.tree.symlink_to(tmp_path / "secret")
    with pytest.raises(MountError, match="a symbolic link is where the fetcher makes none"):
        node.bind()
    assert (target_mounts.layers(node.target), mounts_below(node.mount_root)) == ((), [])


def test_a_lost_mount_is_native_and_tells_its_version(node: Node) -> None:
    node.bind()
    (lost,) = lost_mounts(mountinfo.read(), node.pods, node.mount_root, ())
    assert (lost.version, lost.mode, lost.overlay) == ((UID, DIGEST), MountMode.NATIVE, False)


def test_opens_are_reported_to_marks_on_the_folders_of_the_tree(node: Node) -> None:
    node.bind()
    group, folder = fanotify.open_group(), os.open(node.file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fanotify.mark_folder(group, folder)
        (node.target / "train" / "file").read_text()
        opened = [(one.name, one.pid) for one in fanotify.drain(group, most=10).opened]
    finally:
        os.close(folder)
        os.close(group)
    assert opened == [(b"file", os.getpid())]


def test_what_a_killed_agent_leaves_is_unmounted(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unmount = overlay.unmount
    monkeypatch.setattr(overlay, "unmount", lambda _: None)
    monkeypatch.setattr(target_mounts, "bind_read_only", _killed)
    with pytest.raises(KeyboardInterrupt):
        node.bind()
    monkeypatch.setattr(overlay, "unmount", unmount)
    overlays = Overlays(tmp_path / "metadata", node.mount_root, lambda: None)
    for version in overlays.leftovers(frozenset()):
        overlays.hide(version)
    assert (mounts_below(node.mount_root), list(node.mount_root.iterdir())) == ([], [])


def _killed(*_: object) -> None:
    raise KeyboardInterrupt

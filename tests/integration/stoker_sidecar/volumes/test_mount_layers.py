"""Layers on a pod's target path, with real mounts."""

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.mounts import target_mounts
from tests.support.keeper import Keeper, clear_mounts, mounts_below
from tests.support.versions import VersionFolder

pytestmark = pytest.mark.root


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Path]:
    """Make a shared mount, as a kubelet's folder is, with a target folder in it."""
    folder = tmp_path / "pods"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    subprocess.run(["mount", "--make-shared", str(folder)], check=True)
    target = folder / "a target"
    target.mkdir()
    yield target
    clear_mounts(folder)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "file").write_text("native")
    return folder


def test_a_bound_folder_is_seen_and_cannot_be_written(pod: Path, tree: Path) -> None:
    target_mounts.bind(tree, pod)
    assert (pod / "file").read_text() == "native"
    with pytest.raises(OSError, match="Read-only") as caught:
        (pod / "new").touch()
    assert caught.value.errno == errno.EROFS


def test_a_bound_folder_allows_neither_setuid_nor_devices(pod: Path, tree: Path) -> None:
    target_mounts.bind(tree, pod)
    assert {"ro", "nosuid", "nodev"} <= set(target_mounts.layers(pod)[-1].options)


def test_the_folder_itself_stays_writable(pod: Path, tree: Path) -> None:
    target_mounts.bind(tree, pod)
    (tree / "later").write_text("x")
    assert (pod / "later").read_text() == "x"


def test_binding_the_same_folder_again_adds_no_layer(pod: Path, tree: Path) -> None:
    for _ in range(2):
        target_mounts.bind(tree, pod)
    assert len(target_mounts.layers(pod)) == 1


def test_a_link_beneath_another_users_folder_is_not_followed(pod: Path, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tree / "link").symlink_to(tmp_path / "secret")
    target_mounts.bind(tree, pod, tree)
    with pytest.raises(MountError, match="a symbolic link is where the fetcher makes none"):
        target_mounts.bind(tree / "link", pod, tree)
    assert (pod / "file").read_text() == "native"


def test_another_folder_lies_over_the_first_and_open_files_stay_on_the_first(pod: Path, tree: Path) -> None:
    (tree / "better").mkdir()
    (tree / "better" / "file").write_text("better")
    target_mounts.bind(tree, pod)
    with (pod / "file").open() as opened:
        target_mounts.bind(tree / "better", pod)
        assert (pod / "file").read_text() == "better"
        assert opened.read() == "native"
    assert len(target_mounts.layers(pod)) == 2


def test_unmount_takes_every_layer_and_tells_how_many(pod: Path, tree: Path) -> None:
    (tree / "better").mkdir()
    target_mounts.bind(tree, pod)
    target_mounts.bind(tree / "better", pod)
    assert target_mounts.unmount_all(pod) == 2
    assert target_mounts.unmount_all(pod) == 0
    assert list(pod.iterdir()) == []


def test_unmount_works_under_an_open_file(pod: Path, tree: Path) -> None:
    target_mounts.bind(tree, pod)
    with (pod / "file").open() as opened:
        assert target_mounts.unmount_all(pod) == 1
        assert opened.read() == "native"


def test_a_new_layer_appears_in_a_mount_namespace_that_follows_the_target(pod: Path, tree: Path) -> None:
    """HostToContainer: a pod's namespace is a slave of the node's."""
    target_mounts.bind(tree, pod)
    (tree / "better").mkdir()
    (tree / "better" / "file").write_text("better")
    follower = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", 'echo ready; read go; cat "$1/file"', "sh"]
    with subprocess.Popen([*follower, str(pod)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        target_mounts.bind(tree / "better", pod)
        assert process.communicate("go\n", timeout=60)[0] == "better"


def test_a_missing_source_or_target_is_named(pod: Path, tree: Path) -> None:
    with pytest.raises(MountError, match=rf"showing {tree}/no at"):
        target_mounts.bind(tree / "no", pod)
    with pytest.raises(MountError, match=r"at .*/nowhere") as caught:
        target_mounts.bind(tree, pod / "nowhere")
    assert caught.value.errno == errno.ENOENT


def test_a_folder_without_a_mount_is_not_dead(pod: Path) -> None:
    assert not target_mounts.is_dead(pod)
    assert not target_mounts.is_dead(pod / "not there")


def test_a_dead_fuse_layer_is_found_covered_and_taken_off(pod: Path, tree: Path, tmp_path: Path) -> None:
    version = VersionFolder(tmp_path / "v", {"file": b"fuse"})
    version.finish_all()
    with Keeper(tmp_path / "k") as keeper:
        target_mounts.bind(keeper.serve(version), pod)
        assert (pod / "file").read_bytes() == b"fuse"
        assert not target_mounts.is_dead(pod)
        keeper.kill()
        assert target_mounts.is_dead(pod)
        target_mounts.bind(tree, pod)
        assert (pod / "file").read_text() == "native"
        assert target_mounts.unmount_all(pod) == 2
    assert mounts_below(pod) == []
    pod.rmdir()

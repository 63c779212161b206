"""The overlay of one version on the real kernel, over a real FUSE server.

The requests that it answers itself, and those that it forwards.
"""

import json
import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker_sidecar.errors import MountError
from stoker_sidecar.fuse.operations import XATTR_REQUESTS
from stoker_sidecar.linux.mounts import overlay, target_mounts
from stoker_sidecar.linux.mounts.mount_calls import detach
from stoker_sidecar.volumes.layers import metadata_layer, overlay_support
from stoker_sidecar.volumes.layers.metadata_layer import LayerForm
from stoker_sidecar.wire.fetcher_protocol import Read, ReadDone
from tests.fakes.read_fetcher import FetcherForReads
from tests.support.keeper import UID as KEEPER_UID
from tests.support.keeper import Keeper, clear_mounts
from tests.support.layer_forms import best_form, need
from tests.support.versions import MTIME_NS, VersionFolder

pytestmark = pytest.mark.root

FILES = {
    "empty": b"",
    "twin/a": b"same bytes",
    "twin/b": b"same bytes",
    "odd/ space:colon,comma%41\\back\nline": b"odd",
    "odd/caf\u00e9 \u65e5\u672c": b"unicode",
    "odd/" + "n" * 255: b"long name",
    "odd/!before": b"sorted before the dots",
    "odd/.between": b"sorted between the dots",
    "odd/..beyond": b"sorted beyond the dots",
    **{f"many/{number:04}-{'x' * 40}": b"%d" % number for number in range(200)},
    "/".join(f"deep-{level:03}" for level in range(80)) + "/file": b"deep",
    "large": bytes(range(256)) * 4096,
}


@dataclass
class MountedOverlay:
    """A version without cached files, served over FUSE, with its overlay at ``seen``."""

    keeper: Keeper
    version: VersionFolder
    layers: overlay.OverlayLayers
    seen: Path

    def requests(self) -> Counter[str]:
        return Counter(json.loads(os.getxattr(self.layers.fuse, XATTR_REQUESTS)))

    def walk(self) -> dict[str, os.stat_result]:
        found = (Path(parent) / name for parent, _, names in os.walk(self.seen) for name in names)
        return {str(path.relative_to(self.seen)): path.stat() for path in found}


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    with Keeper(tmp_path_factory.mktemp("keeper")) as running:
        yield running


@pytest.fixture(params=LayerForm)
def node(keeper: Keeper, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MountedOverlay]:
    need(request.param)
    # It contains the version's name, so that no two tests have the same digest.
    version = VersionFolder(tmp_path / "v:1,2", {**FILES, "test": tmp_path.name.encode()})
    by_ino = {version.ino(path): path for path in version.files}

    def bring(request: Read) -> ReadDone:
        return ReadDone("parts", version.put_part(by_ino[request.ino], request.offset, request.length))

    with FetcherForReads(keeper.run_dir / "fetcher.sock", bring):
        layers = overlay.OverlayLayers(tmp_path / "meta", version.folder / "tree", keeper.serve(version))
        metadata_layer.build(version.manifest, layers.metadata, form=request.param)
        seen = tmp_path / "mnt" / "overlay"
        overlay.mount(layers, seen)
        yield MountedOverlay(keeper, version, layers, seen)
        clear_mounts(tmp_path)
        keeper.release(version)


def test_a_cold_tree_has_every_file_with_the_right_bytes(node: MountedOverlay) -> None:
    assert {path: (node.seen / path).read_bytes() for path in node.walk()} == node.version.files


def test_names_and_attributes_never_reach_the_fuse_server(node: MountedOverlay) -> None:
    before = node.requests()
    found = node.walk()
    assert {path: (stat.st_size, stat.st_mtime_ns, stat.st_mode, stat.st_uid) for path, stat in found.items()} == {
        path: (len(data), MTIME_NS, 0o100444, 0) for path, data in node.version.files.items()
    }
    assert node.requests() == before


def test_folders_are_read_only_and_dated_as_their_newest_file(node: MountedOverlay) -> None:
    for folder in (node.seen, node.seen / "twin"):
        assert (folder.stat().st_mode, folder.stat().st_mtime_ns) == (0o040755, MTIME_NS)


def test_one_device_number_for_the_whole_tree(node: MountedOverlay) -> None:
    """Otherwise tools that stay on one file system would skip the files."""
    assert {stat.st_dev for stat in node.walk().values()} == {node.seen.stat().st_dev}


def test_a_cached_file_is_read_without_the_fuse_server(node: MountedOverlay) -> None:
    node.version.finish_all()
    before = node.requests()
    assert {path: (node.seen / path).read_bytes() for path in node.version.files} == node.version.files
    assert node.requests() == before


def test_a_file_that_is_cached_after_its_name_was_looked_up_is_found_at_its_first_open(node: MountedOverlay) -> None:
    assert not (node.layers.tree / "twin").exists()  # the kernel caches that the file is missing in the cache
    node.walk()
    node.version.finish("twin/a")
    before = node.requests()
    assert (node.seen / "twin/a").read_bytes() == b"same bytes"
    assert node.requests() == before


def test_files_that_were_opened_while_they_were_missing_are_read_without_the_fuse_server_when_names_are_forgotten(
    node: MountedOverlay,
) -> None:
    cold = {path: (node.seen / path).read_bytes() for path in node.version.files}
    node.version.finish_all()
    overlay.forget_names(node.seen)
    before = node.requests()
    assert {path: (node.seen / path).read_bytes() for path in node.version.files} == cold == node.version.files
    assert node.requests() == before


def test_open_files_and_folders_are_read_on_when_names_are_forgotten(node: MountedOverlay) -> None:
    folder = os.open(node.seen / "twin", os.O_RDONLY)
    with (node.seen / "large").open("rb") as file:
        head = file.read(1000)
        node.version.finish("large")
        overlay.forget_names(node.seen)
        assert head + file.read() == node.version.files["large"]
    with os.scandir(folder) as rows:
        assert sorted(row.name for row in rows) == ["a", "b"]
    os.close(folder)


def test_names_of_an_overlay_that_is_not_mounted_cannot_be_forgotten(node: MountedOverlay) -> None:
    overlay.unmount(node.seen)
    with pytest.raises(MountError):
        overlay.forget_names(node.seen)


def test_a_descriptor_that_was_opened_while_the_file_was_missing_reads_on_when_it_is_cached(
    node: MountedOverlay,
) -> None:
    with (node.seen / "large").open("rb") as file:
        head = file.read(1000)
        node.version.finish("large")
        assert head + file.read() == node.version.files["large"]


def test_where_a_file_comes_from_can_be_asked(node: MountedOverlay) -> None:
    assert os.getxattr(node.seen / "twin/a", "user.stoker.key") == b"twin/a"
    assert sorted(os.listxattr(node.seen / "twin/a")) == sorted(os.listxattr(node.layers.fuse / "twin/a"))


def test_a_placeholder_cannot_be_told_from_a_file(node: MountedOverlay) -> None:
    assert not [name for name in os.listxattr(node.seen / "twin/a") if "overlay" in name]


def test_a_mount_that_was_given_up_half_way_is_made_whole(node: MountedOverlay) -> None:
    """As after a kill of the agent between the image and the overlay."""
    before = len(target_mounts.layers(node.seen))
    detach(str(node.seen))
    overlay.mount(node.layers, node.seen)
    assert (len(target_mounts.layers(node.seen)), (node.seen / "twin/b").read_bytes()) == (before, b"same bytes")


@pytest.mark.parametrize("node", [LayerForm.IMAGE], indirect=True)  # a folder is never deleted while it is mounted
def test_an_image_that_is_deleted_goes_on_being_read_by_who_has_it_mounted(node: MountedOverlay) -> None:
    """As after a replacement by an agent without image support, which removes them."""
    metadata_layer.remove(node.layers.metadata)
    assert {path: (node.seen / path).read_bytes() for path in node.walk()} == node.version.files


def test_the_tree_cannot_be_written(node: MountedOverlay) -> None:
    with pytest.raises(OSError, match="Read-only"):
        (node.seen / "new").touch()


def test_readers_wait_for_a_killed_fuse_server(node: MountedOverlay) -> None:
    (row,) = [row for row in node.keeper.call(op="list")["servers"] if row["digest"] == node.version.info.digest]
    os.kill(row["pid"], signal.SIGKILL)
    assert {path: (node.seen / path).read_bytes() for path in node.version.files} == node.version.files


def test_showing_the_same_layers_again_adds_no_mount(node: MountedOverlay) -> None:
    before = target_mounts.layers(node.seen)
    overlay.mount(node.layers, node.seen)
    assert target_mounts.layers(node.seen) == before


def test_a_cache_folder_that_was_replaced_is_mounted_anew(node: MountedOverlay) -> None:
    mounted = len(target_mounts.layers(node.seen))
    node.layers.tree.rename(node.version.folder / "old")
    node.layers.tree.mkdir()
    overlay.mount(node.layers, node.seen)
    node.version.finish("twin/b")
    before = node.requests()
    assert (len(target_mounts.layers(node.seen)), (node.seen / "twin/b").read_bytes()) == (mounted, b"same bytes")
    assert node.requests() == before


def test_a_version_that_moved_to_another_cache_folder_is_served_from_there_behind_the_same_mount(
    node: MountedOverlay,
) -> None:
    moved = node.version.folder.with_name("moved")
    with (node.layers.fuse / "large").open("rb", buffering=0) as opened:
        head = opened.read(1000)
        shutil.copytree(node.version.folder, moved)
        (moved / "tree/large").write_bytes(node.version.files["large"])
        shutil.rmtree(node.version.folder)
        paths = {
            "manifest": str(moved / "manifest.sqlite"),
            "version_dir": str(moved),
            "mountpoint": str(node.layers.fuse),
        }
        node.keeper.call(op="serve", uid=KEEPER_UID, digest=node.version.info.digest, **paths)
        assert head + opened.readall() == node.version.files["large"]


def test_hiding_it_leaves_no_mount_and_no_folder(node: MountedOverlay) -> None:
    for _ in range(2):
        overlay.unmount(node.seen)
    assert (target_mounts.layers(node.seen), node.seen.parent.exists()) == ((), False)


def test_an_overlay_is_dead_when_its_fuse_server_is_gone_for_good(node: MountedOverlay) -> None:
    alive = target_mounts.is_dead(node.seen)
    node.keeper.release(node.version)
    assert (alive, target_mounts.is_dead(node.seen)) == (False, True)


def test_a_layer_that_is_missing_is_named(node: MountedOverlay, tmp_path: Path) -> None:
    with pytest.raises(MountError, match="nowhere"):
        overlay.mount(
            overlay.OverlayLayers(tmp_path / "nowhere", node.layers.tree, node.layers.fuse), tmp_path / "other"
        )


def test_this_node_can_mount_overlays_and_the_trial_leaves_nothing(tmp_path: Path) -> None:
    assert overlay_support.find_form(tmp_path / "meta", tmp_path / "mnt") == (best_form(), "")
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["meta", "mnt"]


def test_a_disk_that_takes_no_image_gets_folders() -> None:
    """No image can be mounted from a file on tmpfs."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert overlay_support.find_form(Path(folder) / "meta", Path(folder) / "mnt") == (LayerForm.FOLDER, "")


def test_a_node_that_cannot_overlay_says_why(tmp_path: Path) -> None:
    """A folder of the proc file system acts as a disk that accepts no layer."""
    _, why = overlay_support.find_form(Path("/proc/no"), tmp_path)
    assert re.search("/proc/no.*Overlays need Linux 6.5", why)

"""The room for a metadata layer, and the source that its placeholders name."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stoker_sidecar.errors import ManifestInvalid, MountError
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.volumes.layers.metadata_folder import source_attributes
from stoker_sidecar.volumes.layers.metadata_image import ImageDraft
from stoker_sidecar.volumes.layers.metadata_layer import LayerForm, build, check_room
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR, DiskFloor, Floor
from tests.support.cases import cases
from tests.support.versions import VersionFolder

GIB = 1 << 30


def disk(*, free_bytes: int, free_inodes: int, inodes: int = 10**9) -> os.statvfs_result:
    """Make a statvfs result of a disk with this room.

    Fields: block sizes, blocks, free, available, inodes, free, available, flags, name.
    """
    blocks = free_bytes // 4096
    return os.statvfs_result((4096, 4096, 10**9, blocks, blocks, inodes, free_inodes, free_inodes, 0, 255))


def test_a_disk_with_twice_the_inodes_and_bytes_has_room() -> None:
    check_room(1_000_000, disk(free_bytes=10 * GIB, free_inodes=2_000_000), NO_FLOOR)


@cases("full", disk(free_bytes=10 * GIB, free_inodes=1_999_999), disk(free_bytes=8 * GIB, free_inodes=10**8))
def test_a_disk_that_would_be_half_full_of_placeholders_is_refused_with_the_figures(full: os.statvfs_result) -> None:
    with pytest.raises(MountError, match="layer of 1000000 entries"):
        check_room(1_000_000, full, NO_FLOOR)


@pytest.mark.parametrize("floor", [DiskFloor(Floor(amount=2 * GIB), Floor()), DiskFloor(Floor(), Floor(share=0.001))])
def test_what_is_to_be_left_free_is_no_room_for_a_layer(floor: DiskFloor) -> None:
    room = disk(free_bytes=10 * GIB, free_inodes=2_000_000)
    with pytest.raises(MountError, match="that are free above the floor"):
        check_room(1_000_000, room, floor)


def test_a_file_system_without_an_inode_limit_is_asked_for_bytes_alone() -> None:
    check_room(1_000_000, disk(free_bytes=10 * GIB, free_inodes=0, inodes=0), NO_FLOOR)


def test_an_image_takes_one_inode_and_a_tenth_of_the_bytes() -> None:
    assert check_room(1_000_000, disk(free_bytes=2 * GIB, free_inodes=2), NO_FLOOR, LayerForm.IMAGE) == GIB


def test_an_image_that_takes_more_than_it_may_is_given_up(tmp_path: Path) -> None:
    with ImageDraft(tmp_path / "image", 4096) as draft:
        draft.enter(Entry(1, 0, b"", True, 0, 0, "", ""))
        with pytest.raises(MountError, match="more than the 0 MiB"):
            draft.place(b"a", Entry(2, 1, b"a", False, 1, 0, "e" * 4096, ""))


@pytest.mark.parametrize(("version_id", "names"), [("", ["key", "etag"]), ("v1", ["key", "etag", "version"])])
def test_a_placeholder_tells_the_source_as_the_fuse_server_does(version_id: str, names: list[str]) -> None:
    entry = Entry(2, 1, b"f", False, 1, 0, "e", version_id)
    assert [name for name, _ in source_attributes(b"a/f", entry)] == [f"user.stoker.{name}".encode() for name in names]


@pytest.mark.parametrize("form", LayerForm)
@pytest.mark.parametrize("name", [b"..", b"../escaped", b"a/b", b"."])
def test_a_name_that_leads_out_of_the_layer_is_refused(tmp_path: Path, name: bytes, form: LayerForm) -> None:
    version = VersionFolder(tmp_path / "v", {"file": b"content"})
    with closing(sqlite3.connect(version.manifest)) as manifest:
        manifest.execute("UPDATE entry SET name = ? WHERE is_dir = 0", (name,))
        manifest.commit()
    with pytest.raises(ManifestInvalid, match="cannot be a file"):
        build(version.manifest, tmp_path / "layers" / "layer", form=form)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_relative_to(tmp_path / "layers")) == ["layers"]


@pytest.mark.parametrize(("change", "said"), [("name = X'00'", "cannot be a file"), ("size = -1", "is no size")])
def test_a_manifest_that_no_image_can_hold_is_refused_by_the_name_of_the_file(
    tmp_path: Path, change: str, said: str
) -> None:
    version = VersionFolder(tmp_path / "v", {"file": b"content"})
    with closing(sqlite3.connect(version.manifest)) as manifest:
        manifest.execute(f"UPDATE entry SET {change} WHERE is_dir = 0")
        manifest.commit()
    with pytest.raises(ManifestInvalid, match=said):
        build(version.manifest, tmp_path / "layers" / "layer", form=LayerForm.IMAGE)


def test_the_same_version_makes_the_same_image(tmp_path: Path) -> None:
    version = VersionFolder(tmp_path / "v", {"a/b": b"1", "c": b""})
    images = [tmp_path / "one", tmp_path / "two"]
    for image in images:
        build(version.manifest, image, form=LayerForm.IMAGE)
    assert images[0].read_bytes() == images[1].read_bytes()

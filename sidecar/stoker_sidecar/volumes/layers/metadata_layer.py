"""Builds the metadata layer of a version: empty placeholders for an overlay, which answers everything but reads.

It is a separate program (``python -m stoker_sidecar.volumes.layers.metadata_layer``), because a million entries must
neither block the agent nor stay in its memory. It needs root: the overlay's attributes are in the trusted namespace.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from stoker_sidecar.errors import CacheError, ManifestInvalid, MountError
from stoker_sidecar.linux.libc import end_with_parent
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.linux.sandbox.landlock import TcpAccess
from stoker_sidecar.version.manifest import ROOT_INO, Entry, Manifest
from stoker_sidecar.version.objects import PATH_MAX, skip_reason
from stoker_sidecar.volumes.layers.metadata_folder import READ_ONLY, WRITABLE, FolderDraft, Modes
from stoker_sidecar.volumes.layers.metadata_image import ImageDraft
from stoker_sidecar.wire.config.disk_floor import FLOOR_BYTES, FLOOR_INODES, NO_FLOOR, DiskFloor, DiskSpace, Floor

_BUILDING = ".building"
_NO_TCP = TcpAccess.BIND | TcpAccess.CONNECT
# Other data uses that disk too: the layer may take half of the free space.
_SHARE = 2
# A tenth of another process's CPU share on a busy node. The layer must not slow down training, but training also waits
# for it.
_NICE = 10


class LayerForm(StrEnum):
    """The form of a metadata layer: an image that the kernel mounts from its file, or a folder of placeholders."""

    IMAGE = "image"
    FOLDER = "folder"


# An ext4 inode of 256 bytes holds the attributes of a path up to 28 bytes. A longer one needs an extra block. In an
# image an entry takes 250 bytes and three times the path.
_BYTES_AN_ENTRY = {LayerForm.IMAGE: 512, LayerForm.FOLDER: 4096 + 256}


def build(
    manifest: Path,
    layer: Path,
    floor: DiskFloor = NO_FLOOR,
    form: LayerForm = LayerForm.FOLDER,
    modes: Modes = READ_ONLY,
) -> int:
    """Build the layer at ``layer``, which appears by rename when it is complete. Return the number of entries.

    ``floor`` is the space to leave free on the disk. ``modes`` are those of all entries. Raises ManifestInvalid, and
    MountError if the disk is full or refuses a write.
    """
    draft = layer.with_name(layer.name + _BUILDING)
    source = Manifest.open(manifest)
    try:
        _clear(draft)
        draft.parent.mkdir(parents=True, exist_ok=True)
        room = check_room(source.last_ino, os.statvfs(draft.parent), floor, form)
        with _draft(draft, room, form, modes) as making:
            _fill(source, making)
        draft.rename(layer)
    except OSError as error:
        _clear(draft)
        raise MountError(error.errno or 0, f"building the metadata layer {layer}: {error.strerror}") from error
    except (CacheError, MountError):
        _clear(draft)
        raise
    finally:
        source.close()
    return source.last_ino


def _draft(path: Path, room: int, form: LayerForm, modes: Modes) -> FolderDraft | ImageDraft:
    return ImageDraft(path, room, modes) if form is LayerForm.IMAGE else FolderDraft(path, modes)


def remove(layer: Path) -> None:
    """Delete a layer or its remains. A missing layer is no error. Raises OSError."""
    draft = layer.with_name(layer.name + _BUILDING)
    with suppress(FileNotFoundError):
        layer.rename(draft)  # from here on it is not ready
    _clear(draft)


def is_draft(layer: Path) -> bool:
    """Return True if an entry of the layers' folder is an unfinished layer."""
    return layer.name.endswith(_BUILDING)


def check_room(entries: int, disk: os.statvfs_result, floor: DiskFloor, form: LayerForm = LayerForm.FOLDER) -> int:
    """Return the bytes that a layer of ``entries`` may take: half of the free space above the floor.

    Raises MountError if it would need more, or more than half of the inodes.
    """
    block = disk.f_frsize
    space = DiskSpace(disk.f_bavail * block, disk.f_blocks * block, disk.f_favail, disk.f_files)
    inodes, free = floor.inodes_left(space), floor.bytes_left(space)
    need, files = entries * _BYTES_AN_ENTRY[form], entries if form is LayerForm.FOLDER else 1
    if files * _SHARE > inodes or need * _SHARE > free:
        raise MountError(
            0,
            f"a metadata layer of {entries} entries takes {files} inodes and up to {need >> 20} MiB, which is more "
            f"than half of the {inodes} inodes and {free >> 20} MiB that are free above the floor: make room, lower "
            "sidecar.floor, or set sidecar.overlay to Off",
        )
    return free // _SHARE


def _fill(manifest: Manifest, draft: FolderDraft | ImageDraft) -> None:
    """Add all entries in one pass, in canonical order."""
    root = manifest.entry(ROOT_INO)
    if root is None:
        raise ManifestInvalid("the manifest has no root: fetch the version again")
    draft.enter(root)
    folders = [ROOT_INO]
    for path, entry in manifest.walk():
        _check_name(path, entry)
        while folders[-1] != entry.parent:
            draft.leave()
            folders.pop()
        if entry.is_dir:
            draft.enter(entry)
            folders.append(entry.ino)
        else:
            draft.place(path, entry)
    for _ in folders:
        draft.leave()
    draft.finish()


def _check_name(path: bytes, entry: Entry) -> None:
    """Raise ManifestInvalid for a name that escapes its folder. The manifest lies in a folder of the fetcher."""
    # The names of parent folders were checked before.
    if b"/" in entry.name or skip_reason(entry.name, 0) is not None or len(path) > PATH_MAX:
        raise ManifestInvalid(f"the manifest's path {path[:200]!r} cannot be a file: fetch the version again")


def _clear(layer: Path) -> None:
    with suppress(FileNotFoundError):
        if layer.is_dir():
            shutil.rmtree(layer)
        else:
            layer.unlink()


def main(argv: Sequence[str] | None = None) -> int:
    """Build or remove a layer. Return the exit code. Errors go to standard error in one sentence."""
    parser = argparse.ArgumentParser(prog="stoker_sidecar.volumes.layers.metadata_layer", description=__doc__)
    parser.add_argument("--layer", type=Path, required=True, help="where the layer is or will be")
    parser.add_argument("--form", type=LayerForm, choices=list(LayerForm), default=LayerForm.FOLDER, help="what it is")
    for name, text in (("--floor-bytes", FLOOR_BYTES), ("--floor-inodes", FLOOR_INODES)):
        parser.add_argument(name, type=Floor.parse, default=Floor(), help=text.replace("%", "%%"))
    parser.add_argument("--writable", action="store_true", help="let all users write, below an upper layer")
    parser.add_argument("--manifest", type=Path, help="build it of this version; without it the layer is removed")
    options = parser.parse_args(argv)
    end_with_parent()
    os.nice(_NICE)
    os.umask(0)
    try:
        if options.manifest is None:
            remove(options.layer)
        else:
            # The manifest belongs to the fetcher, and this process is root. It may only read next to the manifest and
            # write layers.
            options.layer.parent.mkdir(parents=True, exist_ok=True)
            Confinement([str(options.manifest.parent)], [str(options.layer.parent)]).begin(no_tcp=_NO_TCP)
            floor = DiskFloor(options.floor_bytes, options.floor_inodes)
            modes = WRITABLE if options.writable else READ_ONLY
            build(options.manifest, options.layer, floor, options.form, modes)
    except (CacheError, MountError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

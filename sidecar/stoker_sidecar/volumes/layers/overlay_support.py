"""Finds out if this node can mount overlays, and with which form of metadata layers."""

import logging
import os
import tempfile
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.mounts import overlay
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.volumes.layers import metadata_layer
from stoker_sidecar.volumes.layers.metadata_layer import LayerForm

log = logging.getLogger(__name__)

_FUSE_DEVICE = Path("/dev/fuse")
_PROBE = "probe"
_MISSING, _ARRIVING, _REPAIRED = (f"{_PROBE} {name}" for name in ("missing", "arriving", "repaired"))
_CONTENT = b"read through the overlay"
_SPOILT = bytes(len(_CONTENT))


def modes_of(why_no_overlay: str, fuse_device: Path = _FUSE_DEVICE) -> tuple[MountMode, ...]:
    """Return this node's mount modes, best first. ``why_no_overlay`` is empty if overlays work."""
    if not fuse_device.exists():
        return (MountMode.NATIVE,)
    if why_no_overlay:
        return (MountMode.NATIVE, MountMode.FUSE)
    return (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)


def find_form(metadata_root: Path, mount_root: Path) -> tuple[LayerForm, str]:
    """Test overlays: a layer below ``metadata_root``, a mount below ``mount_root``, and reads while files come and go.

    Return the best working form of metadata layers, and a sentence on why none works, or an empty string. The kernel
    version alone is not enough. Cleans up after itself. Blocks for a few milliseconds.
    """
    if not (why := _why_not(metadata_root, mount_root, LayerForm.IMAGE)):
        return LayerForm.IMAGE, ""
    log.info("metadata layers are folders of placeholders, an inode a file, and no images: %s", why)
    return LayerForm.FOLDER, _why_not(metadata_root, mount_root, LayerForm.FOLDER)


def _why_not(metadata_root: Path, mount_root: Path, form: LayerForm) -> str:
    try:
        metadata_root.mkdir(mode=0o700, parents=True, exist_ok=True)
        mount_root.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=metadata_root, prefix=_PROBE) as below,
            tempfile.TemporaryDirectory(dir=mount_root, prefix=_PROBE) as above,
        ):
            _try_overlay(Path(below), Path(above) / (_PROBE + overlay.SUFFIX), form)
    except (MountError, OSError) as error:
        return f"{error}. Overlays need Linux 6.5 and a disk at {metadata_root} that takes trusted.* attributes"
    return ""


def _try_overlay(below: Path, mountpoint: Path, form: LayerForm) -> None:
    layers = overlay.OverlayLayers(below / "layer", below / "tree", below / "fuse")
    for folder in (layers.tree, layers.fuse):
        folder.mkdir()
    for name in (_MISSING, _ARRIVING):  # in the lowest layer, which has all files
        (layers.fuse / name).write_bytes(_CONTENT)
    (layers.tree / _REPAIRED).write_bytes(_SPOILT)
    manifest = below / "manifest.sqlite"
    with ManifestBuilder(manifest) as builder:
        names = (_MISSING, _ARRIVING, _REPAIRED)
        builder.add([ListedObject(name.encode(), len(_CONTENT), 0, "", "") for name in names])
        builder.finish()
    metadata_layer.build(manifest, layers.metadata, form=form)
    try:
        overlay.mount(layers, mountpoint)
        _try_changes(layers, mountpoint)
    finally:
        overlay.unmount(mountpoint)


def _try_changes(layers: overlay.OverlayLayers, mountpoint: Path) -> None:
    """Change files below a mounted overlay as the cache does (ADR 24), and read them as pods do. Raises MountError."""
    _check_read(mountpoint / _MISSING, "a file of the lowest layer")
    draft = layers.tree.with_name("draft")
    draft.write_bytes(_CONTENT)
    draft.rename(layers.tree / _ARRIVING)
    _check_read(mountpoint / _ARRIVING, "a file that came after the mount")
    with (mountpoint / _MISSING).open("rb") as before:
        overlay.forget_names(mountpoint)
        if before.read() != _CONTENT:
            raise _misread("an open file whose name was forgotten")
    _check_read(mountpoint / _MISSING, "a file whose name was forgotten")
    with (mountpoint / _REPAIRED).open("rb") as before:
        draft.write_bytes(_CONTENT)
        draft.rename(layers.tree / _REPAIRED)
        if before.read() != _SPOILT:
            raise _misread("an open file that was replaced below")
    (layers.tree / _ARRIVING).unlink()
    _check_read(mountpoint / _ARRIVING, "a file that was opened before it was deleted below")


def _check_read(file: Path, what: str) -> None:
    if file.read_bytes() != _CONTENT:
        raise _misread(what)


def _misread(what: str) -> MountError:
    return MountError(0, f"{what} was read wrong on Linux {os.uname().release}")

"""Tries on this very node whether overlays with data-only layers work: the kernel's version alone says too little."""

import os
import tempfile
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import overlay
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.volumes import metadata_layer

_FUSE_DEVICE = Path("/dev/fuse")
_NAME = "probe"
_CONTENT = b"read through the overlay"


def modes(why_no_overlay: str, fuse_device: Path = _FUSE_DEVICE) -> tuple[MountMode, ...]:
    """What this node can mount, best first. ``why_no_overlay``: empty when overlays work."""
    if not fuse_device.exists():
        return (MountMode.NATIVE,)
    if why_no_overlay:
        return (MountMode.NATIVE, MountMode.FUSE)
    return (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)


def why_no_overlay(metadata_root: Path, mount_root: Path) -> str:
    """Build a layer of one file below ``metadata_root``, mount it below ``mount_root`` and read through it.

    Returns why that does not work, in a sentence; empty when it does. Nothing stays. Blocks for some milliseconds.
    """
    try:
        metadata_root.mkdir(mode=0o700, parents=True, exist_ok=True)
        mount_root.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=metadata_root, prefix=_NAME) as below,
            tempfile.TemporaryDirectory(dir=mount_root, prefix=_NAME) as above,
        ):
            _try(Path(below), Path(above) / (_NAME + overlay.SUFFIX))
    except (MountError, OSError) as error:
        return f"{error}. Overlays need Linux 6.5 and a disk at {metadata_root} that takes trusted.* attributes"
    return ""


def _try(below: Path, mountpoint: Path) -> None:
    layers = overlay.Layers(below / "layer", below / "tree", below / "fuse")
    for folder in (layers.tree, layers.fuse):
        folder.mkdir()
    (layers.fuse / _NAME).write_bytes(_CONTENT)  # only in the last layer, as a file that is not cached
    manifest = below / "manifest.sqlite"
    with ManifestBuilder(manifest) as builder:
        builder.add([ListedObject(_NAME.encode(), len(_CONTENT), 0, "", "")])
        builder.finish()
    metadata_layer.build(manifest, layers.metadata)
    try:
        overlay.show(layers, mountpoint)
        if (mountpoint / _NAME).read_bytes() != _CONTENT:
            raise MountError(0, f"a file of the lowest layer was read wrong on Linux {os.uname().release}")
    finally:
        overlay.hide(mountpoint)

"""The overlays of a node: whether they work here, their metadata layers, and one mount for each version."""

import asyncio
import logging
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType

from stoker_api.dataset import MountMode
from stoker_sidecar.errors import MountError
from stoker_sidecar.linux import mountinfo, overlay
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.volumes import metadata_layer
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.metadata_layer import LayerForm, is_draft
from stoker_sidecar.wire.disk_floor import NO_FLOOR, DiskFloor

log = logging.getLogger(__name__)

_PROGRAM = "stoker_sidecar.volumes.metadata_layer"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Seconds until a layer that could not be built is tried again: what lacked is mostly room, which others' layers give
# back.
_TRY_AGAIN = 300.0
# Beside the folder of layers that are folders: an agent of before there were images deletes it at its start, as it does
# with what earlier boots left, and builds its own.
_IMAGES = ".images"
_FUSE_DEVICE = Path("/dev/fuse")
_PROBE = "probe"
_MISSING, _ARRIVING, _REPAIRED = (f"{_PROBE} {name}" for name in ("missing", "arriving", "repaired"))
_CONTENT = b"read through the overlay"
_SPOILT = bytes(len(_CONTENT))


class Overlays:
    """The metadata layers and overlay mounts of a node's versions.

    All methods but ``show``, ``renew``, ``hide`` and ``leftovers`` run in one event loop; those four block and run in
    threads.
    Layers lie in ``metadata_root``/<boot id>/<uid>/<digest>, or <boot id>.images: none is used after a reboot, when
    nobody knows what reached the disk. ``on_ready`` is called when a layer was built, or may be by now. ``try_again``:
    seconds after a failure. ``floor``: what layers leave free of their disk. ``form``: of layers that are built;
    those of either form that are there are used, as overlays may be mounted that need them.
    """

    def __init__(
        self,
        metadata_root: Path,
        mount_root: Path,
        on_ready: Callable[[], None],
        *,
        try_again: float = _TRY_AGAIN,
        floor: DiskFloor = NO_FLOOR,
        form: LayerForm = LayerForm.FOLDER,
    ) -> None:
        self._metadata_root = metadata_root
        folders = metadata_root / _BOOT_ID.read_text().strip()
        self._roots = {LayerForm.FOLDER: folders, LayerForm.IMAGE: folders.with_name(folders.name + _IMAGES)}
        self._form = form
        self._mount_root = mount_root
        self._on_ready = on_ready
        self._try_again = try_again
        self._floor = floor
        self._failed: dict[VersionKey, str] = {}
        self._working: dict[VersionKey, asyncio.Task[None]] = {}

    @property
    def refused(self) -> Mapping[VersionKey, str]:
        """Return the versions that get no overlay now, and why."""
        return MappingProxyType(self._failed)

    def is_ready(self, version: VersionKey) -> bool:
        """Return whether the metadata layer is built and usable."""
        return version not in self._failed and version not in self._working and is_there(self._layer(version))

    def begin(self, version: VersionKey, manifest: Path) -> None:
        """Build the layer in the background, once; one that failed is tried again at the first call minutes later."""
        if version not in self._failed and version not in self._working:
            self._work(version, self._build(version, manifest))

    def drop(self, version: VersionKey) -> None:
        """Remove the layer in the background."""
        if version not in self._working:
            self._work(version, self._remove(self._layer(version)))

    def distrust(self, version: VersionKey, why: str) -> None:
        """Note that mounting it failed.

        ``is_ready`` says no until the agent starts again, as the kernel would say the same.
        """
        log.warning("no overlay of dataset %s, version %s, until the agent starts again: %s", *version, why)
        self._failed[version] = why

    def built(self) -> tuple[VersionKey, ...]:
        """Return the versions that have a layer."""
        return tuple({(layer.parent.name, layer.name): None for layer in self._layers() if not is_draft(layer)})

    async def clear_drafts(self) -> None:
        """Delete, after a start, what a killed builder left, and the layers of earlier boots."""
        old = [folder for folder in _found(self._metadata_root, "*") if folder not in self._roots.values()]
        for layer in (*old, *self._layers()):
            if layer in old or is_draft(layer):
                await self._remove(layer)

    def show(self, version: VersionKey, paths: VersionPaths, fuse: Path) -> Path:
        """Mount the overlay over a served FUSE mount, once; return where. Raises MountError."""
        mountpoint = self._mountpoint(version)
        overlay.mount(overlay.OverlayLayers(self._layer(version), paths.tree, fuse, paths.root), mountpoint)
        return mountpoint

    def renew(self, version: VersionKey) -> None:
        """Have files that have arrived since they were first opened be read where they lie. Raises MountError."""
        overlay.forget_names(self._mountpoint(version))

    def hide(self, version: VersionKey) -> None:
        """Take it off; no error when it is not there. Raises MountError."""
        overlay.unmount(self._mountpoint(version))

    def leftovers(self, used: frozenset[VersionKey]) -> tuple[VersionKey, ...]:
        """Return versions mounted below the mount root, but neither in ``used`` nor seen by a pod.

        Killed agents leave them.
        """
        rows = mountinfo.read()
        here = mountinfo.below(rows, str(self._mount_root.resolve()))
        devices = defaultdict[VersionKey, set[str]](set)
        for row in here:
            target = Path(row.target)
            devices[target.parent.name, target.name.removesuffix(overlay.SUFFIX)].add(row.device)
        # A table of mounts that was lost is no reason to take a mount from a pod that runs.
        seen = {row.device for row in rows if row not in here}
        return tuple(version for version, found in devices.items() if version not in used and not found & seen)

    def _layers(self) -> list[Path]:
        return [layer for root in self._roots.values() for layer in _found(root, "*/*")]

    def _layer(self, version: VersionKey) -> Path:
        """Return where its layer is, or will be built."""
        uid, digest = version
        places = [root / uid / digest for root in self._roots.values()]
        return next(filter(is_there, places), self._roots[self._form] / uid / digest)

    def _mountpoint(self, version: VersionKey) -> Path:
        uid, digest = version
        return self._mount_root / uid / (digest + overlay.SUFFIX)

    def _work(self, version: VersionKey, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._working[version] = task

        def done(_: "asyncio.Task[None]") -> None:
            del self._working[version]
            self._on_ready()

        task.add_done_callback(done)

    async def _build(self, version: VersionKey, manifest: Path) -> None:
        if is_there(self._layer(version)):
            return
        try:
            await _run(
                *("--layer", str(self._layer(version)), "--form", self._form),
                *("--manifest", str(manifest)),
                *("--floor-bytes", str(self._floor.bytes)),
                *("--floor-inodes", str(self._floor.inodes)),
            )
        except MountError as error:
            log.warning("no overlay of dataset %s, version %s, for now: %s", *version, error.message)
            self._failed[version] = error.message
            asyncio.get_running_loop().call_later(self._try_again, self._forgive, version)

    def _forgive(self, version: VersionKey) -> None:
        del self._failed[version]
        self._on_ready()

    async def _remove(self, layer: Path) -> None:
        try:
            if not await asyncio.to_thread(_removed_at_once, layer):
                await _run("--layer", str(layer))
        except (MountError, OSError) as error:
            log.warning("the metadata layer %s was not removed: %s", layer, error)


def _removed_at_once(layer: Path) -> bool:
    """Delete a layer that is one file, for which a program would take a hundred times as long. Raises OSError."""
    if not layer.is_file():
        return False
    metadata_layer.remove(layer)
    return True


def _found(folder: Path, pattern: str) -> list[Path]:
    """List what matches below a folder: nothing while its disk does not answer."""
    try:
        return list(folder.glob(pattern))
    except OSError as error:
        log.warning("the metadata layers in %s cannot be listed: %s", folder, error.strerror)
        return []


async def _run(*arguments: str) -> None:
    """Run the builder program to its end. Raises MountError with its last words."""
    command = (sys.executable, "-m", _PROGRAM, *arguments)
    try:
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    except OSError as error:
        raise MountError(error.errno or 0, f"starting {_PROGRAM}: {error.strerror}") from error
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise MountError(0, "".join(last) or f"{_PROGRAM} ended with {process.returncode}")


def modes_of(why_no_overlay: str, fuse_device: Path = _FUSE_DEVICE) -> tuple[MountMode, ...]:
    """Return what this node can mount, best first. ``why_no_overlay``: empty when overlays work."""
    if not fuse_device.exists():
        return (MountMode.NATIVE,)
    if why_no_overlay:
        return (MountMode.NATIVE, MountMode.FUSE)
    return (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)


def find_form(metadata_root: Path, mount_root: Path) -> tuple[LayerForm, str]:
    """Try overlays: a layer below ``metadata_root``, a mount below ``mount_root``, reads while files come and go.

    Returns the best form of metadata layers that works here, and why none does, in a sentence; empty when one does: the
    kernel's version alone says too little. Nothing stays. Blocks for some milliseconds.
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
    for name in (_MISSING, _ARRIVING):  # in the last layer, as all files are
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
    """Do below a mounted overlay what is done to the cache (ADR 41), and read as pods do. Raises MountError."""
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

"""The overlays of a node: metadata layers, and one mount for each version."""

import asyncio
import logging
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType

from stoker_sidecar.errors import MountError
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.linux.hardware import boot_id
from stoker_sidecar.linux.mounts import mountinfo, overlay
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.layers import metadata_layer
from stoker_sidecar.volumes.layers.metadata_layer import LayerForm, is_draft
from stoker_sidecar.wire.config.disk_floor import NO_FLOOR, DiskFloor

log = logging.getLogger(__name__)

_PROGRAM = "stoker_sidecar.volumes.layers.metadata_layer"
# Seconds before a failed build is retried. The usual cause is a full disk, where other layers free space.
_TRY_AGAIN = 300.0
# Next to the folder of folder layers. An agent from before images deletes it at its start, like the remains of earlier
# boots, and builds its own layers.
_IMAGES = ".images"


class Overlays:
    """The metadata layers and overlay mounts of a node's versions.

    All methods run in one event loop, except ``show``, ``renew``, ``hide`` and ``leftovers``, which block and run in
    threads. Layers lie in ``metadata_root``/<boot id>/<uid>/<digest>, or <boot id>.images. None is used after a reboot,
    because the state of the disk is then unknown. ``on_ready`` is called when a layer is built or may be retried.
    ``try_again`` is the seconds after a failure. ``floor`` is the free space that layers leave on their disk. ``form``
    is the form of new layers; existing layers of both forms are used, because mounted overlays may need them. With
    ``writable``, modes in the layers let all users write, for overlays with an upper layer.
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
        writable: bool = False,
    ) -> None:
        self._metadata_root = metadata_root
        folders = metadata_root / boot_id()
        self._roots = {LayerForm.FOLDER: folders, LayerForm.IMAGE: folders.with_name(folders.name + _IMAGES)}
        self._form = form
        self._writable = writable
        self._mount_root = mount_root
        self._on_ready = on_ready
        self._try_again = try_again
        self._floor = floor
        self._failed: dict[VersionKey, str] = {}
        self._working: dict[VersionKey, asyncio.Task[None]] = {}

    @property
    def refused(self) -> Mapping[VersionKey, str]:
        """Return the versions without an overlay now, and the reasons."""
        return MappingProxyType(self._failed)

    def is_ready(self, version: VersionKey) -> bool:
        """Return True if the metadata layer is built and usable."""
        return version not in self._failed and version not in self._working and is_there(self.layer(version))

    def begin(self, version: VersionKey, manifest: Path) -> None:
        """Build the layer in the background, once. After a failure, a call some minutes later retries."""
        if version not in self._failed and version not in self._working:
            self._work(version, self._build(version, manifest))

    def drop(self, version: VersionKey) -> None:
        """Remove the layer in the background."""
        if version not in self._working:
            self._work(version, self._remove(self.layer(version)))

    def distrust(self, version: VersionKey, why: str) -> None:
        """Record that mounting it failed.

        ``is_ready`` returns False until the agent restarts, because the kernel would refuse again.
        """
        log.warning("no overlay of dataset %s, version %s, until the agent starts again: %s", *version, why)
        self._failed[version] = why

    def built(self) -> tuple[VersionKey, ...]:
        """Return the versions that have a layer."""
        return tuple({(layer.parent.name, layer.name): None for layer in self._layers() if not is_draft(layer)})

    async def clear_drafts(self) -> None:
        """After a start, delete the drafts of killed builders and the layers of earlier boots."""
        old = [folder for folder in _found(self._metadata_root, "*") if folder not in self._roots.values()]
        for layer in (*old, *self._layers()):
            building = any(layer.stem == digest for _, digest in self._working)
            if layer in old or (is_draft(layer) and not building):
                await self._remove(layer)

    def show(self, version: VersionKey, paths: VersionPaths, fuse: Path) -> Path:
        """Mount the overlay over a served FUSE mount, once. Return its path. Raises MountError."""
        mountpoint = self._mountpoint(version)
        overlay.mount(overlay.OverlayLayers(self.layer(version), paths.tree, fuse, paths.root), mountpoint)
        return mountpoint

    def renew(self, version: VersionKey) -> None:
        """Let the kernel reopen files that arrived after their first open, so that reads go to the disk.

        Raises MountError.
        """
        overlay.forget_names(self._mountpoint(version))

    def hide(self, version: VersionKey) -> None:
        """Unmount the overlay; a missing one is no error. Raises MountError."""
        overlay.unmount(self._mountpoint(version))

    def leftovers(self, used: frozenset[VersionKey]) -> tuple[VersionKey, ...]:
        """Return versions mounted below the mount root that are neither in ``used`` nor visible to a pod.

        Killed agents leave them.
        """
        rows = mountinfo.read()
        root = self._mount_root.resolve()
        here = [row for row in mountinfo.below(rows, str(root)) if Path(row.target).parent.parent == root]
        devices = defaultdict[VersionKey, set[str]](set)
        for row in here:
            target = Path(row.target)
            devices[target.parent.name, target.name.removesuffix(overlay.SUFFIX)].add(row.device)
        # A lost mount table must not take a mount from a running pod.
        seen = {row.device for row in rows if row not in here}
        return tuple(version for version, found in devices.items() if version not in used and not found & seen)

    def _layers(self) -> list[Path]:
        return [layer for root in self._roots.values() for layer in _found(root, "*/*")]

    def layer(self, version: VersionKey) -> Path:
        """Return the path of a version's layer, or of the layer to build."""
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
        if is_there(self.layer(version)):
            return
        try:
            await _run(
                *("--layer", str(self.layer(version)), "--form", self._form),
                *(("--writable",) if self._writable else ()),
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
    """Delete a single-file layer. A separate program would take a hundred times as long. Raises OSError."""
    if not layer.is_file():
        return False
    metadata_layer.remove(layer)
    return True


def _found(folder: Path, pattern: str) -> list[Path]:
    """List the matches below a folder. Return none if its disk does not respond."""
    try:
        return list(folder.glob(pattern))
    except OSError as error:
        log.warning("the metadata layers in %s cannot be listed: %s", folder, error.strerror)
        return []


async def _run(*arguments: str) -> None:
    """Run the builder program. Raises MountError with its last line of output."""
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

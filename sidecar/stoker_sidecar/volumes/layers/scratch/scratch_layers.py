"""The scratch layers of a machine: one private overlay per volume, below a folder that only root enters."""

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from stoker_sidecar.errors import MountError, VolumeCode
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.linux.mounts import mountinfo, writable_overlay
from stoker_sidecar.linux.mounts.loop_device import attached
from stoker_sidecar.linux.mounts.overlay import OverlayLayers
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import Published, PublishRequest, Refuse, VersionKey, Wait
from stoker_sidecar.volumes.layers.overlays import Overlays
from stoker_sidecar.volumes.layers.scratch.scratch_image import scratch_image
from stoker_sidecar.wire.config.disk_floor import DiskFloor

log = logging.getLogger(__name__)

FOLDER = "scratch"  # below the mount root
_NAME_DIGITS = 16
# Seconds for which a layer of names is kept for a volume that waits for it. The kubelet retries within 3 minutes.
_WANTED_SECONDS = 600.0


class ScratchLayers:
    """Makes, renews and removes the scratch layer of a volume. A volume's target path identifies its layer.

    ``show``, ``renew``, ``drop`` and ``clear`` block and raise MountError. ``names`` has metadata layers whose modes
    let all users write. ``folders`` are the cache folders on disks; ``floor`` is the space that stays free there.
    ``refused`` is a sentence on why this machine has no overlays. ``clock`` counts seconds.
    """

    def __init__(
        self,
        mount_root: Path,
        names: Overlays,
        folders: Collection[Path],
        floor: DiskFloor,
        refused: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mount_root = mount_root
        self._names = names
        self._folders = folders
        self._floor = floor
        self._refused = refused
        self._clock = clock
        self._wanted: dict[VersionKey, float] = {}

    def obstacle(self, version: VersionKey, folder: Path, request: PublishRequest) -> Wait | Refuse | None:
        """Return why a volume's layer cannot be mounted now. Start what it needs. ``folder``: of the version."""
        if self._refused:
            return Refuse(VolumeCode.INVALID_ARGUMENT, f"scratch needs an overlay: {self._refused}")
        if request.user_namespace:
            why = "the pod has hostUsers: false, and the kernel maps no overlay into a user namespace"
            return Refuse(VolumeCode.INVALID_ARGUMENT, f"scratch cannot be mounted: {why}; remove one of them")
        self._wanted[version] = self._clock()
        if self._names.is_ready(version):
            return None
        self._names.begin(version, VersionPaths(folder).manifest)
        why = self._names.refused.get(version, "the layer of file names is being built")
        return Wait(f"the scratch layer of the Dataset {request.name} is not ready: {why}")

    def show(self, record: Published, paths: VersionPaths, fuse: Path, taken: int) -> Path:
        """Mount a volume's layer over a served FUSE mount, once. Return its path.

        ``taken``: bytes of the layers of all other volumes.
        """
        mountpoint, version = self._mountpoint(record.request.target), (record.uid, record.version)
        is_new = not writable_overlay.has_disk(mountpoint)
        try:
            if is_new:
                with (
                    scratch_image(self._folders, record.request.scratch_bytes, self._floor, taken) as image,
                    attached(image) as device,
                ):
                    writable_overlay.mount_disk(device, mountpoint)
            layers = OverlayLayers(self._names.layer(version), paths.tree, fuse, paths.root)
            writable_overlay.mount(layers, mountpoint)
        except MountError:
            if is_new:
                with suppress(MountError):
                    writable_overlay.unmount(mountpoint)
            raise
        return mountpoint

    def renew(self, target: Path) -> None:
        """Let the kernel reopen files that arrived after their first open, so that reads go to the disk."""
        writable_overlay.forget_names(self._mountpoint(target))

    def drop(self, target: Path) -> None:
        """Remove a volume's layer with everything that was written. A missing one is no error."""
        if is_there(mountpoint := self._mountpoint(target)):
            writable_overlay.unmount(mountpoint)

    def clear(self, targets: Iterable[Path]) -> None:
        """Remove the layers of killed agents: those of no volume at ``targets`` and visible to no pod."""
        kept = {self._mountpoint(target) for target in targets}
        rows = mountinfo.read()
        here = set(mountinfo.below(rows, str(self._root)))
        seen = {row.device for row in rows if row not in here}  # a lost table must not take a layer from a pod
        for mountpoint in self._root.iterdir() if is_there(self._root) else ():
            shown = {row.device for row in here if row.target == str(mountpoint)} & seen
            if mountpoint not in kept and not shown:
                writable_overlay.unmount(mountpoint)

    async def clear_drafts(self) -> None:
        """Delete unfinished layers of names."""
        await self._names.clear_drafts()

    def collect(self, records: Iterable[Published]) -> None:
        """Remove layers of names that no volume uses or waits for."""
        used = {(record.uid, record.version) for record in records if record.request.scratch_bytes}
        oldest = self._clock() - _WANTED_SECONDS
        self._wanted = {version: at for version, at in self._wanted.items() if at > oldest}
        for version in self._names.built():
            if version not in used and version not in self._wanted:
                self._names.drop(version)

    @property
    def _root(self) -> Path:
        return self._mount_root.resolve() / FOLDER

    def _mountpoint(self, target: Path) -> Path:
        return self._root / hashlib.sha256(bytes(target)).hexdigest()[:_NAME_DIGITS]

"""The sources of pods' mounts: a version's folder, FUSE mount or overlay. Each lives as long as a volume needs it."""

import asyncio
import errno
import logging
from collections.abc import Collection, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import KeeperUnavailable, MountError, VolumeCode, VolumeError
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import (
    Published,
    PublishRequest,
    Refuse,
    VersionKey,
    VersionOnDisk,
    Wait,
    in_user_namespace,
    layer_is_spent,
    needs_layer,
    users,
    wanted_mode,
)
from stoker_sidecar.volumes.mount_table import MountTable
from stoker_sidecar.volumes.mounter import in_thread
from stoker_sidecar.volumes.synchronization import KeyedLocks
from stoker_sidecar.volumes.user_namespaces import UserNamespaces

log = logging.getLogger(__name__)

# Errors of mount(2) for an overlay that this kernel, its security module or this file system does not allow.
_REFUSALS = frozenset({errno.EINVAL, errno.ENODEV, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS})


class FuseServing(Protocol):
    """Starts and ends FUSE servers through the keeper. Both calls are idempotent and raise KeeperUnavailable."""

    async def serve(self, uid: str, digest: str, manifest: Path, version_dir: Path, mountpoint: Path) -> None:
        """Return when the version is mounted at ``mountpoint`` and answers."""

    async def release(self, uid: str, digest: str) -> None:
        """Return when the version is unmounted and its server has ended."""


class OverlayMounts(Protocol):
    """Metadata layers and overlay mounts of versions.

    ``show``, ``renew``, ``hide`` and ``leftovers`` block and raise MountError.
    """

    def is_ready(self, version: VersionKey) -> bool:
        """Return True if the metadata layer is built and usable."""

    def begin(self, version: VersionKey, manifest: Path) -> None:
        """Build the layer in the background, once."""

    def drop(self, version: VersionKey) -> None:
        """Remove the layer in the background."""

    def distrust(self, version: VersionKey, why: str) -> None:
        """Make ``is_ready`` return False from now on."""

    def built(self) -> tuple[VersionKey, ...]:
        """Return the versions that have a layer."""

    async def clear_drafts(self) -> None:
        """Delete the drafts of killed builders."""

    def show(self, version: VersionKey, paths: VersionPaths, fuse: Path) -> Path:
        """Mount the overlay over a served FUSE mount, once. Return its path."""

    def renew(self, version: VersionKey) -> None:
        """Let the kernel reopen files that arrived after their first open, so that reads go to the disk."""

    def hide(self, version: VersionKey) -> None:
        """Unmount the overlay. A missing one is no error."""

    def leftovers(self, used: frozenset[VersionKey]) -> tuple[VersionKey, ...]:
        """Return versions with a FUSE or overlay mount that are neither in ``used`` nor visible to a pod."""


class ScratchMounts(Protocol):
    """The writable layers of volumes. All but ``obstacle`` and ``clear_drafts`` block and raise MountError."""

    def obstacle(self, version: VersionKey, folder: Path, request: PublishRequest) -> Wait | Refuse | None:
        """Return why a volume's layer cannot be mounted now. Start what it needs."""

    def show(self, record: Published, paths: VersionPaths, fuse: Path, taken: int) -> Path:
        """Mount a volume's layer over a served FUSE mount, once. Return its path. ``taken``: bytes of all others."""

    def renew(self, target: Path) -> None:
        """Let the kernel reopen files that arrived after their first open, so that reads go to the disk."""

    def drop(self, target: Path) -> None:
        """Remove a volume's layer with everything that was written. A missing one is no error."""

    def clear(self, targets: Iterable[Path]) -> None:
        """Remove the layers of killed agents: those of no volume at ``targets`` and visible to no pod."""

    def collect(self, records: Iterable[Published]) -> None:
        """Remove layers of names that no volume uses or waits for."""

    async def clear_drafts(self) -> None:
        """Delete unfinished layers of names."""


class MountSource(NamedTuple):
    """A folder to bind, and its mount mode.

    ``root`` is the fetcher's folder above it; None for one of the agent's folders. ``scratch``: see ``Mounts.bind``.
    ``writable`` means that the folder is a volume's own writable layer.
    """

    mode: MountMode
    folder: Path
    root: Path | None = None
    scratch: Path | None = None
    writable: bool = False


class MountSources:
    """The folders that volumes of a version can show: its tree, its FUSE mount, its overlay.

    ``modes`` are the node's mount modes. ``user_namespaces`` knows the pods whose mounts cannot be overlays.
    ``scratch`` has the writable layers of volumes; None: no volume may have one. Hold a version's lock (``hold``) while
    a source is opened and recorded, or released, so that a release by the last user and an open do not overlap.
    """

    def __init__(
        self,
        keeper: FuseServing,
        overlays: OverlayMounts,
        table: MountTable,
        mount_root: Path,
        modes: Collection[MountMode],
        user_namespaces: UserNamespaces | None = None,
        scratch: ScratchMounts | None = None,
    ) -> None:
        self._scratch = scratch
        self._user_namespaces = user_namespaces or UserNamespaces()
        self._unlayered: set[Path] = set()  # cache folders that the kernel refuses to show through an overlay
        self._keeper = keeper
        self._overlays = overlays
        self._table = table
        self._mount_root = mount_root
        self._modes = modes
        self._locks = KeyedLocks()

    def hold(self, version: VersionKey) -> AbstractAsyncContextManager[None]:
        """Return a context that excludes other opens and releases of this version's sources."""
        return self._locks.hold(version)

    def best(self, version: VersionKey, on_disk: VersionOnDisk, request: PublishRequest) -> MountMode:
        """Return the best mode for a volume of the version now."""
        if request.scratch_bytes:
            return MountMode.OVERLAY
        mode = wanted_mode(on_disk, self._modes, layer_ready=self._overlays.is_ready(version))
        if self._user_namespaces.has(request):
            return in_user_namespace(mode, request)
        unlayered = not request.ephemeral and VersionPaths(on_disk.folder).root in self._unlayered
        return MountMode.FUSE if mode is MountMode.NATIVE and unlayered else mode

    def refuses_layer(self, folder: Path, why: VolumeError) -> bool:
        """Return True if ``why`` means that the kernel refuses the read-only layer of a claim's native mount.

        Claims of this cache folder's versions use FUSE from then on. ``folder`` is a version's folder.
        """
        cause = why.__cause__
        if not isinstance(cause, MountError) or cause.errno not in _REFUSALS:
            return False
        self._unlayered.add(VersionPaths(folder).root)
        log.warning("claims of versions in %s use FUSE until the agent's next start: %s", folder, why)
        return True

    def prepare(self, version: VersionKey, on_disk: VersionOnDisk) -> None:
        """Start building the layer for a better mode."""
        if needs_layer(on_disk, self._modes, layer_ready=self._overlays.is_ready(version)):
            self._overlays.begin(version, VersionPaths(on_disk.folder).manifest)

    async def open(self, version: VersionKey, folder: Path, mode: MountMode, *, bind_is_safe: bool) -> MountSource:
        """Start the servers of ``mode``; fall back to FUSE if the overlay is refused.

        ``folder`` is the version's folder. ``bind_is_safe`` means that containers mount the volume read-only: a bind
        mount of the tree could be made writable, other mounts cannot. Raises VolumeError.
        """
        paths = VersionPaths(folder)
        if mode is MountMode.NATIVE:
            return MountSource(mode, paths.tree, paths.root, None if bind_is_safe else self._mount_root)
        fuse = await self._serve(version, paths)
        if mode is MountMode.OVERLAY:
            try:
                return MountSource(mode, await asyncio.to_thread(self._overlays.show, version, paths, fuse))
            except MountError as error:
                self._overlays.distrust(version, error.message)
        return MountSource(MountMode.FUSE, fuse)

    def obstacle(self, version: VersionKey, on_disk: VersionOnDisk, request: PublishRequest) -> Wait | Refuse | None:
        """Return why a volume cannot be mounted now, although its version is here."""
        if not request.scratch_bytes:
            return None
        if self._scratch is None:
            return Refuse(VolumeCode.INVALID_ARGUMENT, "this machine has no scratch layers")
        return self._scratch.obstacle(version, on_disk.folder, request)

    async def open_scratch(self, record: Published, folder: Path) -> MountSource:
        """Start the version's FUSE server, and make the volume's writable layer over it. Raises VolumeError."""
        assert self._scratch is not None
        paths, version = VersionPaths(folder), (record.uid, record.version)
        match self._scratch.obstacle(version, folder, record.request):  # such as after a reboot
            case Wait(reason):
                raise VolumeError(VolumeCode.UNAVAILABLE, reason)
            case Refuse(code, reason):
                raise VolumeError(code, reason)
        fuse = await self._serve(version, paths)
        others = (one.request for one in self._table.all() if one.request.target != record.request.target)
        taken = sum(request.scratch_bytes for request in others)
        shown = await in_thread(self._scratch.show, record, paths, fuse, taken)
        return MountSource(MountMode.OVERLAY, shown, writable=True)

    async def drop_scratch(self, target: Path) -> None:
        """Remove the writable layer of the volume at ``target``. A missing one is no error. Raises VolumeError."""
        if self._scratch is not None:
            await in_thread(self._scratch.drop, target)

    async def renew(self, version: VersionKey) -> None:
        """Renew the version's overlays that volumes have: see ``OverlayRenewal``. Raises MountError."""
        async with self.hold(version):
            records = users(self._table.all(), version)
            if any(record.overlay for record in records):
                await asyncio.to_thread(self._overlays.renew, version)
            for record in records:
                if record.request.scratch_bytes and self._scratch is not None:
                    await asyncio.to_thread(self._scratch.renew, record.request.target)

    async def release_unused(self, version: VersionKey) -> None:
        """Release the sources that no volume of the table needs."""
        left = users(self._table.all(), version)
        if not any(record.overlay for record in left):
            await self._hide(version)
        if not any(record.fuse for record in left):
            await self._release(version)

    async def clear_leftovers(self) -> None:
        """Release the remains of a killed agent: unused FUSE servers and overlays, unfinished layers."""
        await self._overlays.clear_drafts()
        if self._scratch is not None:
            await self._scratch.clear_drafts()
            volumes = [record.request.target for record in self._table.all() if record.request.scratch_bytes]
            await asyncio.to_thread(self._scratch.clear, volumes)
        used = frozenset((record.uid, record.version) for record in self._table.all() if record.fuse)
        for version in await asyncio.to_thread(self._overlays.leftovers, used):
            async with self.hold(version):
                await self.release_unused(version)

    async def built(self) -> tuple[VersionKey, ...]:
        """Return the versions that have a metadata layer."""
        return await asyncio.to_thread(self._overlays.built)

    async def drop_spent_layer(self, version: VersionKey, on_disk: VersionOnDisk | None) -> None:
        """Remove a version's metadata layer if it has no further use."""
        async with self.hold(version):
            if layer_is_spent(self._table.all(), version, on_disk):
                self._overlays.drop(version)

    def drop_spent_names(self) -> None:
        """Remove the layers of names below writable layers that no volume uses or waits for."""
        if self._scratch is not None:
            self._scratch.collect(self._table.all())

    async def _serve(self, version: VersionKey, paths: VersionPaths) -> Path:
        uid, digest = version
        mountpoint = self._mount_root / uid / digest
        try:
            await self._keeper.serve(uid, digest, paths.manifest, paths.folder, mountpoint)
        except KeeperUnavailable as error:
            what = f"serving version {digest[:12]} of dataset {uid}"
            raise VolumeError(VolumeCode.INTERNAL, f"{what} failed: {error}") from error
        return mountpoint

    async def _hide(self, version: VersionKey) -> None:
        try:
            await asyncio.to_thread(self._overlays.hide, version)
        except MountError as error:
            # The pod's volume is gone, as requested. The agent's next start unmounts the overlay.
            log.warning("the overlay of dataset %s, version %s, was not taken off: %s", *version, error)

    async def _release(self, version: VersionKey) -> None:
        try:
            await self._keeper.release(*version)
        except KeeperUnavailable as error:
            # As above. The next user of the version takes over the server.
            log.warning("the FUSE server of dataset %s, version %s, was not ended: %s", *version, error)

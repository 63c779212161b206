"""Binds folders to the pods' target paths and unmounts them: mount(2) in threads, with errors as sentences."""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.errors import MountError, VolumeCode, VolumeError

log = logging.getLogger(__name__)

_R = TypeVar("_R")
_SLOWEST_FIRST = (MountMode.FUSE, MountMode.OVERLAY, MountMode.NATIVE)


class Mounts(Protocol):
    """The system's mounts, implemented by the module linux.mounts. All calls block and raise MountError."""

    def bind(self, source: Path, target: Path, root: Path | None = None, scratch: Path | None = None) -> None:
        """Mount the folder ``source`` read-only at ``target``, on top of existing mounts.

        ``root`` is another user's folder that contains ``source``; no link below it is followed. ``scratch`` is a
        folder for a mount that ends before this returns. With it, ``target`` shows a file system that cannot be made
        writable.
        """

    def bind_writable(self, source: Path, target: Path) -> None:
        """Mount the folder ``source`` at ``target``, on top of existing mounts. Writes depend on its file system."""

    def unmount_all(self, target: Path) -> int:
        """Lazily unmount every layer of ``target``. Return their number."""

    def layers(self, target: Path) -> Sequence[object]:
        """Return the mounts at exactly ``target``, bottom first."""

    def show_in_pod(self, pod_uid: str, target: Path) -> None:
        """Show the top layer of ``target`` in the pod's containers that still see an older one, where possible."""

    def old_modes_in_pod(self, pod_uid: str, target: Path) -> Collection[str]:
        """Return the modes of older layers of ``target`` that the pod still sees. Raises OSError."""

    def is_dead(self, target: Path) -> bool:
        """Return True if the top layer has lost its FUSE server."""


class Mounter:
    """Mounts at one target at a time. The caller prevents concurrent calls for the same target.

    ``keep_targets`` means that target folders belong to someone else and stay after an unmount.
    """

    def __init__(self, mounts: Mounts, *, keep_targets: bool = False) -> None:
        self._mounts = mounts
        self._keep_targets = keep_targets

    async def bind(self, folder: Path, target: Path, root: Path | None = None, scratch: Path | None = None) -> None:
        """Mount ``folder`` read-only at ``target``, over existing mounts. Raises VolumeError.

        ``root`` and ``scratch``: see ``Mounts.bind``.
        """
        await in_thread(self._bind, folder, target, root, scratch)

    async def bind_writable(self, folder: Path, target: Path) -> None:
        """Mount ``folder`` at ``target``, over existing mounts. Raises VolumeError."""
        await in_thread(self._bind_writable, folder, target)

    async def unmount(self, target: Path) -> None:
        """Unmount every layer of ``target``; its folder stays. Raises VolumeError."""
        await in_thread(self._mounts.unmount_all, target)

    async def remove(self, target: Path) -> None:
        """Unmount every layer of ``target``, and remove its folder. Raises VolumeError."""
        await self.unmount(target)
        if not self._keep_targets:
            await in_thread(_remove_folder, target)

    async def propagate(self, target: Path, pod_uid: str) -> None:
        """Show the top layer also in containers to which mounts do not propagate.

        This needs the node's process namespace. A refusal is logged.
        """
        try:
            await asyncio.to_thread(self._mounts.show_in_pod, pod_uid, target)
        except MountError as error:
            log.warning("a container of the volume at %s stays on the mount that it has: %s", target, error)

    async def shown_mode(self, target: Path, pod_uid: str, mode: MountMode) -> MountMode:
        """Return the pod's mount mode: ``mode`` of the top layer, or the slowest one that it still sees."""
        try:
            old = await asyncio.to_thread(self._mounts.old_modes_in_pod, pod_uid, target)
        except OSError as error:
            log.debug("the mounts of the pod at %s cannot be read: %s", target, error)
            return mode
        return next(one for one in _SLOWEST_FIRST if one in (mode, *old))

    async def is_alive(self, target: Path) -> bool:
        """Return True if a mount at ``target`` exists and responds."""
        return bool(await in_thread(self._mounts.layers, target)) and not await self.is_dead(target)

    async def is_dead(self, target: Path) -> bool:
        """Return True if the top layer at ``target`` has lost its server."""
        return await in_thread(self._mounts.is_dead, target)

    async def is_gone(self, target: Path) -> bool:
        """Return True without a mount and a folder: the pod was removed without an unpublish."""
        return await in_thread(self._nothing_at, target)

    def _nothing_at(self, target: Path) -> bool:
        return not self._mounts.layers(target) and not os.path.lexists(target)

    def _bind(self, folder: Path, target: Path, root: Path | None, scratch: Path | None) -> None:
        self._make_target(target)
        self._mounts.bind(folder, target, root, scratch)

    def _bind_writable(self, folder: Path, target: Path) -> None:
        self._make_target(target)
        self._mounts.bind_writable(folder, target)

    def _make_target(self, target: Path) -> None:
        if not self._mounts.layers(target):
            # The kubelet creates only the parent, with mode 0750.
            target.mkdir(mode=0o750, parents=True, exist_ok=True)


async def in_thread(call: Callable[..., _R], *args: object) -> _R:
    """Run a blocking call in a thread. Convert MountError and OSError into VolumeError with a sentence."""
    try:
        return await asyncio.to_thread(call, *args)
    except (MountError, OSError) as error:
        raise VolumeError(VolumeCode.INTERNAL, f"{error} (asked for by the volume's mount or unmount)") from error


def _remove_folder(target: Path) -> None:
    """Remove an empty folder. A non-empty folder holds a person's files, so it is refused."""
    try:
        target.rmdir()
    except FileNotFoundError:
        return

"""Binds folders to the pods' target paths and takes them off again: mount(2) in threads, its refusals as sentences."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from stoker_sidecar.errors import MountError, VolumeCode, VolumeError

log = logging.getLogger(__name__)

_R = TypeVar("_R")


class Mounts(Protocol):
    """The system's mounts, as the module linux.mounts has them. All calls block and raise MountError."""

    def bind(self, source: Path, target: Path, root: Path | None = None) -> None:
        """Show the folder ``source`` read-only at ``target``, on top of what is there.

        ``root``: a folder of another user's, beneath which ``source`` lies and no link is followed.
        """

    def unmount_all(self, target: Path) -> int:
        """Take every layer off ``target`` lazily; return how many there were."""

    def layers(self, target: Path) -> Sequence[object]:
        """Return what is mounted at exactly ``target``, bottom first."""

    def show_in_pod(self, pod_uid: str, target: Path) -> None:
        """Show the top layer of ``target`` in containers of the pod that still see an older one, where possible."""

    def is_dead(self, target: Path) -> bool:
        """Return whether the top layer has lost the FUSE server that it needs."""


class Mounter:
    """Mounts at one target at a time; its caller sees to it that no two calls work on the same one.

    ``keep_targets``: target folders are someone's own and stay when nothing is mounted there.
    """

    def __init__(self, mounts: Mounts, *, keep_targets: bool = False) -> None:
        self._mounts = mounts
        self._keep_targets = keep_targets

    async def bind(self, folder: Path, target: Path, root: Path | None = None) -> None:
        """Show ``folder`` read-only at ``target``, over what is mounted there. Raises VolumeError.

        ``root``: a folder of another user's, beneath which ``folder`` lies and no link is followed.
        """
        await in_thread(self._bind, folder, target, root)

    async def unmount(self, target: Path) -> None:
        """Take every layer off ``target``; its folder stays. Raises VolumeError."""
        await in_thread(self._mounts.unmount_all, target)

    async def remove(self, target: Path) -> None:
        """Take every layer off ``target``, and remove its folder. Raises VolumeError."""
        await self.unmount(target)
        if not self._keep_targets:
            await in_thread(_remove_folder, target)

    async def propagate(self, target: Path, pod_uid: str) -> None:
        """Show the top layer also in containers to which mounts do not propagate.

        It needs to see the node's processes; one that is refused is logged.
        """
        try:
            await asyncio.to_thread(self._mounts.show_in_pod, pod_uid, target)
        except MountError as error:
            log.warning("a container of the volume at %s stays on the mount that it has: %s", target, error)

    async def is_alive(self, target: Path) -> bool:
        """Return whether something is mounted at ``target`` and answers."""
        return bool(await in_thread(self._mounts.layers, target)) and not await self.is_dead(target)

    async def is_dead(self, target: Path) -> bool:
        """Return whether the top layer at ``target`` has lost its server."""
        return await in_thread(self._mounts.is_dead, target)

    async def is_gone(self, target: Path) -> bool:
        """Return whether there is neither a mount nor a folder: the pod was removed behind our back."""
        return await in_thread(self._nothing_at, target)

    def _nothing_at(self, target: Path) -> bool:
        return not self._mounts.layers(target) and not os.path.lexists(target)

    def _bind(self, folder: Path, target: Path, root: Path | None) -> None:
        if not self._mounts.layers(target):
            # The kubelet makes only the parent; 0750 is what it gives that.
            target.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._mounts.bind(folder, target, root)


async def in_thread(call: Callable[..., _R], *args: object) -> _R:
    """Run a blocking call in a thread. Raises VolumeError with a sentence where it raises MountError or OSError."""
    try:
        return await asyncio.to_thread(call, *args)
    except (MountError, OSError) as error:
        raise VolumeError(VolumeCode.INTERNAL, f"{error} (asked for by the volume's mount or unmount)") from error


def _remove_folder(target: Path) -> None:
    """Remove an empty folder; what is in another one a person has put there, so that is refused."""
    try:
        target.rmdir()
    except FileNotFoundError:
        return

"""The kernel's read-ahead of FUSE mounts, as rules request it: a setting of each mount that the agent may write."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from stoker_sidecar.linux.mounts.fuse_device import READ_AHEAD, set_read_ahead
from stoker_sidecar.tuning.tuner import TuningInForce
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes

log = logging.getLogger(__name__)
_AGAIN_SECONDS = 5.0


class MountReadAhead:
    """Keeps the read-ahead of each version's FUSE mount at the value of its rules. Call ``run``. Not thread-safe.

    ``mount_root``: the folder of the FUSE mounts, ``UID/DIGEST`` each. ``served``: returns the versions whose mounts
    answer. ``in_force``: the tuning of versions. ``news``: marked when one of these may have changed. ``write``: sets
    the bytes of a mount, see ``set_read_ahead``.
    """

    def __init__(
        self,
        mount_root: Path,
        served: Callable[[], Collection[VersionKey]],
        in_force: Mapping[VersionKey, TuningInForce],
        news: Collection[Changes],
        write: Callable[[Path, int], bool] = set_read_ahead,
    ) -> None:
        self._mount_root = mount_root
        self._served = served
        self._in_force = in_force
        self._news = news
        self._write = write
        self._set: dict[VersionKey, int] = {}  # values that this process has set
        self._looking = asyncio.Lock()
        self._told = False

    async def run(self) -> None:
        """Apply every change, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for news in self._news:
                tasks.create_task(self._follow(news))

    async def _follow(self, news: Changes) -> None:
        while True:
            token = news.token()
            is_done = await self.look()
            await news.wait(token, None if is_done else _AGAIN_SECONDS)

    async def look(self) -> bool:
        """Set changed values. Return False if a mount was not found.

        Reads of mountinfo may miss a row while other programs mount and unmount.
        """
        async with self._looking:
            served = self._served()
            self._set = {version: size for version, size in self._set.items() if version in served}
            for version in served:
                now = self._in_force.get(version)
                wanted = READ_AHEAD if now is None or now.read_ahead is None else now.read_ahead
                if self._set.get(version) != wanted:
                    await self._give(version, wanted)
            return all(version in self._set for version in served)

    async def _give(self, version: VersionKey, size: int) -> None:
        uid, digest = version
        try:
            if await asyncio.to_thread(self._write, self._mount_root / uid / digest, size):
                self._set[version] = size
        except OSError as error:
            self._set[version] = size  # /sys does not become writable during the life of this process
            if size != READ_AHEAD and not self._told:
                self._told = True
                log.warning("the kernel's read-ahead of FUSE mounts stays unchanged in spite of the rules: %s", error)

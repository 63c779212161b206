"""Makes a cache folder again that someone deleted: the fetcher, which uses it, has no right to where it lay."""

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from stoker_api.nodecache import CacheFolder
from stoker_sidecar.agent.plan import NodePlan

_log = logging.getLogger(__name__)


class CacheRootKeeper:
    """``owner_of``: a file of the fetcher's, whose owner the folder gets."""

    def __init__(self, plan: NodePlan, owner_of: Path) -> None:
        self._plan = plan
        self._owner_of = owner_of

    async def run(self) -> None:
        """Until cancelled. The fetcher tries a folder that is out of service again within a minute."""
        while True:
            token = self._plan.changes.token()
            await asyncio.to_thread(restore_missing, self._plan.folders, self._owner_of)
            await self._plan.changes.wait(token)


def restore_missing(folders: Iterable[CacheFolder], owner_of: Path) -> None:
    """Make those that are out of service since they are not there. Blocks."""
    for folder in folders:
        path = Path(folder.path)
        if folder.healthy or path.exists():
            continue
        try:
            owner = owner_of.stat()
            path.mkdir(mode=0o755, parents=True)
            os.chown(path, owner.st_uid, owner.st_gid)
        except OSError as error:
            _log.warning("the cache folder %s was deleted and cannot be made again: %s", path, error)
        else:
            _log.warning("the cache folder %s was deleted, and is made again", path)

"""Restores cache folders that someone deleted."""

import asyncio
import logging
import os
from collections.abc import Iterable
from errno import ENOENT, ENOTDIR
from pathlib import Path

from stoker_api.node_caches.node_storage import CacheFolder
from stoker_sidecar.agent.planning.plan import NodePlan

log = logging.getLogger(__name__)


class CacheRootKeeper:
    """Restores deleted cache folders. The fetcher uses them but may not write to their parent folder.

    ``owner_of``: a file of the fetcher; restored folders get its owner.
    """

    def __init__(self, plan: NodePlan, owner_of: Path) -> None:
        self._plan = plan
        self._owner_of = owner_of

    async def run(self) -> None:
        """Restore missing folders at every change, until cancelled.

        The fetcher retries a folder that is out of service within a minute.
        """
        while True:
            token = self._plan.changes.token()
            await asyncio.to_thread(restore_missing, self._plan.folders, self._owner_of)
            await self._plan.changes.wait(token)


def restore_missing(folders: Iterable[CacheFolder], owner_of: Path) -> None:
    """Make the folders that are out of service because they are missing. Blocks.

    If a disk returns an error for a folder, leave the folder to the fetcher, which reports it.
    """
    for folder in folders:
        path = Path(folder.path)
        if folder.healthy or not _is_missing(path):
            continue
        try:
            owner = owner_of.stat()
            path.mkdir(mode=0o700, parents=True)
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
        except OSError as error:
            log.warning("the cache folder %s was deleted and cannot be made again: %s", path, error)
        else:
            log.warning("the cache folder %s was deleted, and is made again", path)


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno in (ENOENT, ENOTDIR)
    return False

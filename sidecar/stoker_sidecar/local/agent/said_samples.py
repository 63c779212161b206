"""Checks before mounting that the files of --sampling exist in the version."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from stoker_api.jobs.sampling import parse_sampling_text
from stoker_orders.job_order import MOST_SAMPLES
from stoker_orders.sample_index import NoSamplesError
from stoker_orders.sample_map import SampleMap
from stoker_sidecar.agent.questions.reading.version_reader import ListNeeded, VersionReader
from stoker_sidecar.errors import CacheError, FetcherUnavailable, MountRefused, ReaderUnavailable
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Failed, Read, Reply
from stoker_sidecar.wire.reader_protocol import MOST_LIST

log = logging.getLogger("stoker.mount")
# For the whole check. If it takes longer (a list over a slow line), the mount proceeds, and the order's state shows
# errors.
_SECONDS = 30.0
# A fetched list is in place within this time: a large one is moved there when it is complete.
_LOOKS, _LOOK_SECONDS = 10, 0.1


class SamplesCheck:
    """Searches the samples of one mount with ``reader``.

    ``ask`` sends the fetcher a request, and raises FetcherUnavailable. ``changes`` is marked when its answer may
    change.
    """

    def __init__(
        self,
        sampling: str,
        folders: CacheFolders,
        reader: VersionReader,
        ask: Callable[[Read], Awaitable[Reply]],
        changes: Changes,
    ) -> None:
        self._files = parse_sampling_text(sampling).plan().files
        self._folders = folders
        self._reader = reader
        self._ask = ask
        self._changes = changes

    async def refuse_what_is_not_there(self, version: VersionKey, uri: str) -> None:
        """Return when the samples are found, or cannot be checked. Raises MountRefused with a sentence.

        A list or an index is fetched for the check. If it does not arrive, the mount is not refused: the order waits
        for it.
        """
        try:
            async with asyncio.timeout(_SECONDS):
                await self._find(version)
        except NoSamplesError as error:
            raise MountRefused(
                f"--sampling does not fit {uri}: {error}; correct its files (paths are below that URL), "
                "or mount without --sampling"
            ) from error
        except (OSError, CacheError, ReaderUnavailable) as error:  # OSError includes the timeout
            log.warning("it is not known yet whether --sampling fits: %s", str(error) or "it takes too long")

    async def _find(self, version: VersionKey) -> None:
        found = await self._look(version)
        if not isinstance(found, ListNeeded) or not await self._brought(version, found.ino):
            return
        for _ in range(_LOOKS):
            if not isinstance(await self._look(version), ListNeeded):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, version: VersionKey) -> SampleMap | ListNeeded | None:
        """Search once; None: the version is not on the disk, which the mount reports. Raises NoSamplesError."""
        if (paths := self._folders.paths(*version)) is None:
            return None
        return await self._reader.samples("", paths, self._files, lambda: MOST_SAMPLES)

    async def _brought(self, version: VersionKey, ino: int) -> bool:
        """Let the fetcher fetch a file. Return True on success."""
        while True:
            token = self._changes.token()
            with suppress(FetcherUnavailable):  # it is starting
                reply = await self._ask(Read(*version, ino, 0, MOST_LIST))
                if not isinstance(reply, Failed):
                    return True
                if reply.errno != errno.EAGAIN:  # otherwise the fetcher has just started
                    log.warning("the list of --sampling cannot be read: %s", reply.message)
                    return False
            await self._changes.wait(token, _LOOK_SECONDS)

"""Whether the files that --sampling speaks of are in what is about to be mounted: told before it is."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from stoker_api.sampling import parse_sampling_text
from stoker_orders.sample_index import NoSamplesError
from stoker_orders.sample_map import SampleMap
from stoker_sidecar.agent.sample_maps import MOST_LIST, ListNeeded, read_map
from stoker_sidecar.errors import CacheError, FetcherUnavailable, MountRefused
from stoker_sidecar.threads import to_its_end
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.fetcher_protocol import Failed, Read, Reply

log = logging.getLogger("stoker.mount")
# For all of it: what takes longer (a list over a slow line) is mounted, and who follows the order tells of it.
_SECONDS = 30.0
# A list that has come is in its place after this many seconds: a large one is moved there when it is whole.
_LOOKS, _LOOK_SECONDS = 10, 0.1


class SamplesCheck:
    """Looks for the samples of one mount. ``ask`` hands the fetcher a request, and raises FetcherUnavailable.

    ``changes``: marked when the fetcher may answer otherwise.
    """

    def __init__(
        self, sampling: str, folders: CacheFolders, ask: Callable[[Read], Awaitable[Reply]], changes: Changes
    ) -> None:
        self._files = parse_sampling_text(sampling).plan().files
        self._folders = folders
        self._ask = ask
        self._changes = changes

    async def refuse_what_is_not_there(self, version: VersionKey, uri: str) -> None:
        """Return when the samples are found, or cannot be looked for. Raises MountRefused with a sentence.

        A list or an index is fetched for it. One that does not come is no reason to refuse: the order waits for it.
        """
        try:
            async with asyncio.timeout(_SECONDS):
                await self._find(version)
        except NoSamplesError as error:
            raise MountRefused(
                f"--sampling does not fit {uri}: {error}; correct its files (paths are below that URL), "
                "or mount without --sampling"
            ) from error
        except (OSError, CacheError) as error:  # OSError: also that the time is over
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
        """Look once; None: the version is not on the disk, which is told by who mounts it. Raises NoSamplesError."""
        if (paths := self._folders.paths(*version)) is None:
            return None
        hurry = asyncio.Event()
        # Without rests: nobody reads yet, and who mounts waits for it.
        read = partial(read_map, said=self._files, ended=hurry.is_set, rest=0.0)
        looking = asyncio.ensure_future(asyncio.to_thread(self._folders.go_through, read, paths))
        return await to_its_end(looking, hurry=hurry.set)

    async def _brought(self, version: VersionKey, ino: int) -> bool:
        """Have the fetcher bring a file; returns whether it did."""
        while True:
            token = self._changes.token()
            with suppress(FetcherUnavailable):  # it is being started
                reply = await self._ask(Read(*version, ino, 0, MOST_LIST))
                if not isinstance(reply, Failed):
                    return True
                if reply.errno != errno.EAGAIN:  # else the fetcher has just been started
                    log.warning("the list of --sampling cannot be read: %s", reply.message)
                    return False
            await self._changes.wait(token, _LOOK_SECONDS)

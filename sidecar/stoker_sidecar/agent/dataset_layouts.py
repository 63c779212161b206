"""What the files of mounted versions are to training: made from their manifests, in a thread, once for each version."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from functools import partial

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.threads import to_its_end
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_tuning.training.layout import DatasetLayout, FileFact, make_layout

log = logging.getLogger(__name__)
# Files of a version beyond which nobody follows its readers: a layout takes 5 us a file, a reader 3 bits.
MOST_FILES = 10_000_000
# A thread that makes a layout lets the agent's event loop run: it rests this long after so many files (20 ms of work).
_PACE_FILES, _PACE_SECONDS = 4096, 0.02

_LayoutKey = tuple[VersionKey, bool]


class DatasetLayouts:
    """The layouts of the versions whose readers are followed. ``run`` it; not for threads."""

    def __init__(self, folders: CacheFolders) -> None:
        self._folders = folders
        self._made: dict[_LayoutKey, DatasetLayout | None] = {}  # None: it cannot be made
        self._wanted: dict[_LayoutKey, None] = {}
        self._asked = Changes()
        self._ended = threading.Event()

    def get(self, version: VersionKey, *, by_chunk: bool) -> DatasetLayout | None:
        """Return a version's layout; None: it is not made yet, which is done now, or cannot be."""
        key = version, by_chunk
        if key not in self._made and key not in self._wanted:
            self._wanted[key] = None
            self._asked.mark()
        return self._made.get(key)

    def retain(self, versions: Collection[VersionKey]) -> None:
        """Forget the layouts of other versions."""
        self._made = {key: layout for key, layout in self._made.items() if key[0] in versions}
        self._wanted = {key: None for key in self._wanted if key[0] in versions}

    async def run(self) -> None:
        """Make what is asked for, one after the other, until cancelled."""
        while True:
            token = self._asked.token()
            key = next(iter(self._wanted), None)
            if key is None:
                await self._asked.wait(token)
                continue
            layout = await self._make(*key)
            if key in self._wanted:
                del self._wanted[key]
                self._made[key] = layout

    async def _make(self, version: VersionKey, by_chunk: bool) -> DatasetLayout | None:
        try:
            reading = asyncio.ensure_future(asyncio.to_thread(self._read, version, by_chunk))
            return await to_its_end(reading, hurry=self._ended.set)
        except (OSError, SidecarError) as error:
            log.warning("who reads version %s of dataset %s is not followed: %s", version[1][:12], version[0], error)
            return None

    def _read(self, version: VersionKey, by_chunk: bool) -> DatasetLayout | None:
        paths = self._folders.paths(*version)
        if paths is None:
            return None

        def ended() -> bool:
            return self._ended.is_set() or (version, by_chunk) not in self._wanted

        return self._folders.go_through(partial(read_layout, by_chunk=by_chunk, ended=ended), paths)


def read_layout(
    paths: VersionPaths, *, by_chunk: bool, ended: Callable[[], bool] = lambda: False
) -> DatasetLayout | None:
    """Make the layout of a version; None: it has too many files. Blocks, without haste. Raises CacheError.

    It is of no use when ``ended`` says that nobody waits for it any more: then it ends soon.
    """
    with closing(Manifest.open(paths.manifest)) as manifest:
        if manifest.info.files > MOST_FILES:
            return None
        return make_layout(_facts(manifest, ended), by_chunk=by_chunk)


def _facts(manifest: Manifest, ended: Callable[[], bool]) -> Iterator[FileFact]:
    for count, (path, entry) in enumerate(manifest.walk(), start=1):
        if not entry.is_dir:
            yield FileFact(entry.ino, path.decode(errors="replace"), entry.size)
        if count % _PACE_FILES == 0:
            if ended():
                return
            time.sleep(_PACE_SECONDS)

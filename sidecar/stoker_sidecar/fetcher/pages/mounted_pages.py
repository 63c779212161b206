"""Loads files of a dataset into the page cache: after a mount, a change of a rule, or a request for warmed files."""

from collections.abc import Mapping
from functools import partial

from stoker_api.datasets.cache_memory import WarmedPages
from stoker_api.datasets.warm_paths import paths_digest
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.choosing import is_chosen_here, left_to_warm
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.path_selection import PathSelection
from stoker_sidecar.fetcher.ondisk.telemetry import Telemetry
from stoker_sidecar.fetcher.ondisk.version_tuning import DatasetTuning, VersionTuning
from stoker_sidecar.fetcher.pages.page_cache import PageCache, PageWish
from stoker_sidecar.threads import in_thread
from stoker_sidecar.wire.fetcher_protocol import PAGED_BYTES


class MountedPages:
    """Asks for files of mounted versions in the page cache, once for each volume; for one event loop.

    ``versions``: of the dataset that are open, by digest.
    """

    def __init__(
        self,
        cache: PageCache,
        versions: Mapping[str, Fetching],
        tuning: DatasetTuning,
        telemetry: Telemetry,
    ) -> None:
        self._cache = cache
        self._versions = versions
        self._tuning = tuning
        self._telemetry = telemetry
        self._volumes: Mapping[str, int] = {}  # by digest
        self._owed: set[str] = set()

    def mounted(self, volumes: Mapping[str, int]) -> frozenset[str]:
        """Set the number of volumes of each version, by digest. Return the digests."""
        before, self._volumes = self._volumes, dict(volumes)
        self._owed |= {digest for digest, many in volumes.items() if many > before.get(digest, 0)}
        self.look()
        return frozenset(volumes)

    def tune(self, digest: str, tuning: VersionTuning) -> None:
        """Treat the files of a version so from now on."""
        before = self._tuning.of(digest)
        self._tuning.set(digest, tuning)
        if not tuning.pages_like(before):
            self._owed.add(digest)
            self.look()

    def look(self) -> None:
        """Request the pages of pending versions that are open: of their files on the disk."""
        self._owed &= self._volumes.keys()
        for digest in self._owed & self._versions.keys():
            self._owed.discard(digest)
            version, tuning = self._versions[digest].version, self._tuning.of(digest)
            if tuning.pages:
                marks = version.states.here_among(
                    tuning.paged(rank, version.manifest.last_ino) for rank in tuning.ranks
                )
                count = partial(self._telemetry.add, PAGED_BYTES)
                self._cache.want(PageWish(version.paths, marks, partial(self._is_mounted, digest), count))

    def _is_mounted(self, digest: str) -> bool:
        return digest in self._volumes


# Parts of the chosen files that are read in sequence, each by inode. A part takes a byte an inode.
_MOST_PARTS = 8


class WarmingPages:
    """Asks for the files of one Dataset that are warm in the page cache; for one event loop."""

    def __init__(self, cache: PageCache, telemetry: Telemetry) -> None:
        self._cache = cache
        self._telemetry = telemetry
        self._asked: tuple[str, str, str] | None = None
        self._status: WarmedPages | None = None

    @property
    def status(self) -> WarmedPages | None:
        """The progress. None without a request, or while the requested files are not warm."""
        return self._status

    async def look(self, config: NodeDataset, version: CachedVersion) -> None:
        """Request the pages of warm files, unless that was done for this request. Raises CacheDiskFailed."""
        request = (version.paths.folder.name, paths_digest(config.warm_paths), config.pages)
        if not config.pages:
            self._asked = self._status = None
            return
        if request == self._asked:
            return
        self._status = None
        if not _is_warm(config, version):
            return
        self._asked = request
        marks = await in_thread(_marks, version.chosen.selection, version.states.whole_files())
        total = version.chosen.here_bytes if version.chosen.selection is not None else version.warm_bytes
        self._status = WarmedPages(request=config.pages, bytes=total)
        count = partial(self._count, request)
        self._cache.want(
            PageWish(version.paths, marks, lambda: self._asked == request, count, "warm", partial(count, 0))
        )

    def _count(self, request: tuple[str, str, str], brought: int) -> None:
        self._telemetry.add(PAGED_BYTES, brought)
        if request == self._asked and self._status is not None:
            self._status = self._status.model_copy(update={"read_bytes": brought, "done": True})


def _is_warm(config: NodeDataset, version: CachedVersion) -> bool:
    """Return True if all files that will be cached are here: the chosen ones, or those that fit."""
    if version.complete or is_chosen_here(version, config.warm_paths):
        return True
    return config.eager and not left_to_warm(version, State.MISSING) and version.warm_files > 0


def _marks(selection: PathSelection | None, here: bytes) -> tuple[bytes, ...]:
    """Mark the files to read, a byte an inode: in the order of the paths, with the precision of a few parts."""
    if selection is None:
        return (here,)
    inodes = list(selection.in_order(here))
    step = max(1, -(-len(inodes) // _MOST_PARTS))
    return tuple(_marked(inodes[first : first + step], len(here)) for first in range(0, len(inodes), step))


def _marked(inodes: list[int], length: int) -> bytes:
    marks = bytearray(length)
    for ino in inodes:
        marks[ino] = 1
    return bytes(marks)

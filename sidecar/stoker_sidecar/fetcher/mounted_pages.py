"""Which versions of a dataset are owed the page cache: those that were mounted, or of which a rule says so since."""

from collections.abc import Mapping
from functools import partial

from stoker_sidecar.fetcher.core.version_tuning import DatasetTuning, VersionTuning
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.page_cache import PageCache, PageWish
from stoker_sidecar.fetcher.telemetry import Telemetry
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
        """Take how many volumes of each version there are now, by digest; return the digests."""
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
        """Ask for what is owed of versions that are open by now: files that are on the disk."""
        self._owed &= self._volumes.keys()
        for digest in self._owed & self._versions.keys():
            self._owed.discard(digest)
            version, tuning = self._versions[digest].version, self._tuning.of(digest)
            if tuning.pages:
                marks = version.here_among(tuning.paged(rank, version.manifest.last_ino) for rank in tuning.ranks)
                count = partial(self._telemetry.add, PAGED_BYTES)
                self._cache.want(PageWish(version.paths, marks, partial(self._is_mounted, digest), count))

    def _is_mounted(self, digest: str) -> bool:
        return digest in self._volumes

"""Fetches the last files of a mounted version without a read: only whole versions are mounted natively."""

import logging
from collections.abc import Hashable
from dataclasses import dataclass

from stoker_api.meta import format_bytes
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.warming import CanonicalOrder

# Number of missing files that is always few, even above a hundredth: a README, or leftovers of tools.
_FEW = 16
_HUNDREDTH = 100
# Seconds without arrivals: readers reread cached files, or have ended.
QUIET_SECONDS = 60.0
# Seconds until failed files are retried: objects that changed or are gone, as in warm-up.
AGAIN_SECONDS = 600.0


@dataclass(frozen=True)
class FileSet:
    """A number of files, and their bytes."""

    files: int
    bytes: int


def is_little(missing: FileSet, whole: FileSet) -> bool:
    """Return True if the missing part is at most a hundredth, of the bytes and of the files, or a few files."""
    few = missing.files <= _FEW or missing.files * _HUNDREDTH <= whole.files
    return few and missing.bytes * _HUNDREDTH <= whole.bytes


@dataclass
class IdleTimer:
    """Notices that nothing has changed for a while, and tells so now and then while it stays so."""

    _state: Hashable = None
    _next: float = 0.0

    def is_over(self, state: Hashable, now: float) -> bool:
        """Return True if the state was the same for QUIET_SECONDS, and again after AGAIN_SECONDS. ``now``: seconds."""
        if state != self._state:
            self._state, self._next = state, now + QUIET_SECONDS
        if now < self._next:
            return False
        self._next = now + AGAIN_SECONDS
        return True


_log = logging.getLogger(__name__)


class CompletionPass:
    """Detects a version that is fetched by reads, is almost complete, and has had no arrivals for a while.

    Files that fail then are fetched when they are read, or are retried some minutes later. ``allowed``: False disables
    it.
    """

    def __init__(self, *, allowed: bool) -> None:
        self._allowed = allowed
        self._watch = IdleTimer()
        self._due = ""  # digest of the version whose last files are due

    def look(self, fetching: Fetching | None, held: frozenset[str], now: float) -> bool:
        """Return True if the missing files are due. ``held``: digests that pods have mounted. ``now``: seconds."""
        if not self._allowed or fetching is None or fetching.version.paths.folder.name not in held:
            return False
        version, left = fetching.version, _missing(fetching)
        state = (version.paths.folder.name, left, version.arrived_bytes)
        if not _may_become_whole(fetching, left) or not self._watch.is_over(state, now):
            return False
        self._due = version.paths.folder.name
        _log.info(
            "version %s lacks %s files (%s): they are fetched, so that pods read it natively",
            *(self._due[:12], left.files, format_bytes(left.bytes)),
        )
        return True

    def order(self, fetching: Fetching) -> CanonicalOrder | None:
        """Return the order in which they are fetched now; None: they are not due. Once for each time that they are."""
        if not self._due or fetching.version.paths.folder.name != self._due:
            return None
        self._due = ""
        return CanonicalOrder(fetching.version)


def _missing(fetching: Fetching) -> FileSet:
    version = fetching.version
    return FileSet(version.manifest.info.files - version.warm_files, version.manifest.info.bytes - version.warm_bytes)


def _may_become_whole(fetching: Fetching, left: FileSet) -> bool:
    """Return True if little is missing and fits, no reader waits, and no setting decides which files are fetched."""
    version, budget, info = fetching.version, fetching.space.budget, fetching.version.manifest.info
    config = budget.config
    if config.eager or config.paused or config.warm_paths or budget.last_use.evicted:
        return False
    if version.complete or version.packed or version.waiting_readers or fetching.tuning.leaves_out:
        return False
    return is_little(left, FileSet(info.files, info.bytes)) and fetching.space.room().admits(left.bytes)

"""Has the last files of a version that pods have mounted fetched unasked: only what is whole is mounted natively."""

import logging

from stoker_api.meta import format_bytes
from stoker_sidecar.fetcher.core.little_left import FileSet, QuietWatch, is_little
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.download.warming import CanonicalOrder

_log = logging.getLogger(__name__)


class LastFiles:
    """Sees when a version that is fetched as it is read lacks little, and nothing has come for a while.

    What fails then is fetched when it is read, as ever, or is tried again some minutes later. ``allowed``: nothing is
    ever due where not.
    """

    def __init__(self, *, allowed: bool) -> None:
        self._allowed = allowed
        self._watch = QuietWatch()
        self._due = ""  # digest of the version whose last files are to be fetched

    def look(self, fetching: Fetching | None, held: frozenset[str], now: float) -> bool:
        """Tell whether they are due from now on. ``held``: digests that pods have mounted; ``now`` counts seconds."""
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
    """Tell whether little is missing, it has room, no reader waits, and nobody has said what is to be fetched."""
    version, budget, info = fetching.version, fetching.space.budget, fetching.version.manifest.info
    config = budget.config
    if config.eager or config.paused or config.warm_paths or budget.last_use.evicted:
        return False
    if version.complete or version.packed or version.waiting_readers or fetching.tuning.leaves_out:
        return False
    return is_little(left, FileSet(info.files, info.bytes)) and fetching.space.room().admits(left.bytes)

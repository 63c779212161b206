"""The order of a pass of warming over files that `warm.paths` names."""

from collections.abc import Iterator

from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.version.path_selection import PathSelection

_MISSING_ALONE = bytes(int(state == State.MISSING) for state in range(256))


class ChosenOrder:
    """An AccessOrder: path by path as they were given, and of each as the manifest has its files."""

    def __init__(self, version: CachedVersion, selection: PathSelection) -> None:
        self._version = version
        self._selection = selection

    def __iter__(self) -> Iterator[Entry]:
        """Rows are read a page at a time, and files that are here passed over by the hundred thousand."""
        page: dict[int, Entry] = {}
        for ino in self._selection.in_order(bytes(self._version.states.translate(_MISSING_ALONE))):
            if not self._version.is_missing(ino):
                continue
            if ino not in page:
                page = {entry.ino: entry for entry in self._version.manifest.page(ino - 1)}
            yield page[ino]

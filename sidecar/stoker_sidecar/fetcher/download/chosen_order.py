"""The order of a pass of warming over files that `warm.paths` names."""

from collections.abc import Iterable, Iterator

from stoker_sidecar.fetcher.cached_version import CachedVersion, State
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.version.path_selection import PathSelection

_NEAR = 16  # inodes: the next one of a folder's, but for its folders and for files that are here
_MISSING_ALONE = bytes(int(state == State.MISSING) for state in range(256))


class ChosenOrder:
    """An AccessOrder: path by path as they were given, and of each as the manifest has its files.

    ``marks``: a byte an inode, 1 for those of them that are meant; None: all.
    """

    def __init__(self, version: CachedVersion, selection: PathSelection, marks: bytes | None = None) -> None:
        self._version = version
        self._selection = selection
        self._marks = marks

    def __iter__(self) -> Iterator[Entry]:
        """Files that are here are passed over by the hundred thousand."""
        version = self._version
        wanted = bytes(version.states.translate(_MISSING_ALONE))
        if self._marks is not None:
            wanted = (int.from_bytes(wanted) & int.from_bytes(self._marks)).to_bytes(len(wanted))
        yield from entries_of(version.manifest, filter(version.is_missing, self._selection.in_order(wanted)))


def entries_of(manifest: Manifest, inos: Iterable[int]) -> Iterator[Entry]:
    """Yield the entries of inodes as they come.

    Rows are read a page at a time where they follow one another; a page for each file of a list that is in no order
    would cost more than the file. Raises KeyError for an unknown inode.
    """
    page: dict[int, Entry] = {}
    before = 0
    for ino in inos:
        if ino not in page:
            page = _rows(manifest, ino, page=0 <= ino - before <= _NEAR)
        before = ino
        yield page[ino]


def _rows(manifest: Manifest, ino: int, *, page: bool) -> dict[int, Entry]:
    rows = manifest.page(ino - 1) if page else filter(None, (manifest.entry(ino),))
    return {entry.ino: entry for entry in rows}

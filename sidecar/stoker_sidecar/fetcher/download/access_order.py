"""In which order a version's files are fetched when nobody waits for them."""

from collections.abc import Iterator
from typing import Protocol

from stoker_sidecar.fetcher.cached_version import Version
from stoker_sidecar.version.manifest import Entry


class AccessOrder(Protocol):
    """Iterated once a pass; each file is asked for when it is about to be fetched, so that those that came meanwhile are left out.

    An order that a training job is known to read in would be one more.
    """

    def __iter__(self) -> Iterator[Entry]:
        """Files that are still missing."""
        ...


class CanonicalOrder:
    """As the manifest has them: folder by folder, by name."""

    def __init__(self, version: Version) -> None:
        self._version = version

    def __iter__(self) -> Iterator[Entry]:
        """Rows are read a page at a time: a query for each file would cost ten times as much."""
        ino = self._version.missing()
        while ino > 0:
            page = self._version.manifest.page(ino - 1)
            for entry in page:
                if self._version.is_missing(entry.ino):
                    yield entry
            ino = self._version.missing(page[-1].ino)

"""What keeping without eviction is compared with in benchmarks: the file that came first makes room for the new one."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from stoker_sidecar.fetcher.cached_version import Version
from stoker_sidecar.fetcher.core.quota import Room


@dataclass
class DriveOut:
    """Reads of files that are here pass the fetcher by, so the last use that it knows of is the fetch."""

    version: Version
    room: Callable[[], Room]
    _fetched: deque[int] = field(default_factory=deque)

    def note(self, ino: int) -> None:
        """A file has come."""
        self._fetched.append(ino)

    def make_room(self, size: int) -> bool:
        """Drop files until ``size`` bytes fit; whether they do. Blocks for a moment."""
        while not (fits := self.room().admits(size)) and self._fetched:
            entry = self.version.manifest.entry(self._fetched.popleft())
            if entry is not None:
                self.version.tree_path(entry).unlink(missing_ok=True)
                self.version.lose(entry)
        return fits

"""The fetcher with another policy for downloads.

`python -m bench.variants.fetcher POLICY`, then the fetcher's own options.
"""

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count

from bench.errors import UsageError
from stoker_sidecar.fetcher import main as product
from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.download.policy import DownloadKey, KeepWhatCame, PolicyFactory
from stoker_sidecar.fetcher.space.budget import VersionSpace

# More chunks than any file has: an asker's own key for a piece is none that another piece has.
_CHUNKS = 2**40


class EachForItself(KeepWhatCame):
    """A policy without single download: each asker downloads a piece for itself."""

    def __init__(self, version: CachedVersion, space: VersionSpace) -> None:
        super().__init__(version, space)
        self._askers = count()

    def key(self, ino: int, chunk: int) -> DownloadKey:
        """Return a key that no other asker gets."""
        return ino, chunk + next(self._askers) * _CHUNKS


class DriveOutOldest(KeepWhatCame):
    """A policy with eviction: the file that came first makes room for a new one.

    Reads of files that are here pass the fetcher by, so the last use that it knows of is the download.
    """

    def __init__(self, version: CachedVersion, space: VersionSpace) -> None:
        super().__init__(version, space)
        self._version = version
        self._space = space
        self._came: deque[int] = deque()

    def make_room(self, size: int) -> bool:
        """Drop files until ``size`` bytes fit; return whether they do. Blocks for a moment."""
        while not (fits := self._space.room().admits(size)) and self._came:
            entry = self._version.manifest.entry(self._came.popleft())
            if entry is not None:
                self._version.tree_path(entry).unlink(missing_ok=True)
                self._version.lose(entry)
        return fits

    def stays(self, ino: int) -> None:
        """Put a file behind all that came before it."""
        self._came.append(ino)


EACH_FOR_ITSELF, DRIVE_OUT_OLDEST = "each-for-itself", "drive-out-oldest"
POLICIES: Mapping[str, PolicyFactory] = {EACH_FOR_ITSELF: EachForItself, DRIVE_OUT_OLDEST: DriveOutOldest}


def main(argv: Sequence[str]) -> int:
    """Run the fetcher; return its exit code. Raises UsageError for a policy that there is not."""
    policy, *options = argv or [""]
    if policy not in POLICIES:
        raise UsageError(f"{policy!r} is no policy: name one of {', '.join(POLICIES)} first")
    return product.main(options, POLICIES[policy])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Whether a dataset may be warm here: when it was last used, and whether it was dropped to make room. Both survive a restart."""

import time
from collections.abc import Callable
from contextlib import suppress

from stoker_sidecar.version.layout import DatasetPaths


class Stay:
    """``home``: where the dataset's markers lie now. ``evicted``: why it was dropped, a sentence; empty when it was not."""

    def __init__(self, home: Callable[[], DatasetPaths]) -> None:
        self._home = home
        self._touch = False
        self.evicted = ""

    def load(self) -> None:
        """Read the markers. Blocks."""
        with suppress(OSError):
            self.evicted = self._home().evicted.read_text()

    def use(self) -> None:
        """It is read or mounted now; quick, noted on the disk at the next ``save``."""
        self._touch = True

    def save(self) -> None:
        """Date the marker when it was used since the last time. Blocks."""
        if self._touch:
            self._touch = False
            with suppress(OSError):  # the date of last use is worth no error
                self._home().used.touch()

    def used_at(self) -> float:
        """Seconds since 1970; 0 when it never was. Blocks for a moment."""
        if self._touch:
            return time.time()
        try:
            return self._home().used.stat().st_mtime
        except OSError:
            return 0.0

    def drop(self, why: str) -> None:
        """It is dropped from this disk. Blocks for a moment. Raises OSError."""
        self.evicted = why
        self._home().evicted.write_text(why)

    def allow(self) -> None:
        """It may be warmed again. Blocks for a moment."""
        if self.evicted:
            self.evicted = ""
            with suppress(OSError):  # at worst it waits once more after a restart, until it is used
                self._home().evicted.unlink(missing_ok=True)

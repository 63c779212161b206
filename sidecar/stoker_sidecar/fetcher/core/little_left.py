"""Decides when the last files of a mounted version are fetched unasked, so that pods read it natively. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass

# So many files may be missing also where that is more than a hundredth: a README, what tools have left there.
_FEW = 16
_HUNDREDTH = 100
# Seconds in which nothing has come: readers go over what is here, or have ended.
QUIET_SECONDS = 60.0
# Until what could not be had is tried again: an object that changed or is gone, as warm-up does it.
AGAIN_SECONDS = 600.0


@dataclass(frozen=True)
class FileSet:
    """So many files, and their bytes."""

    files: int
    bytes: int


def is_little(missing: FileSet, whole: FileSet) -> bool:
    """Tell whether what is missing is a hundredth at most, of the bytes and of the files, or of these a few."""
    few = missing.files <= _FEW or missing.files * _HUNDREDTH <= whole.files
    return few and missing.bytes * _HUNDREDTH <= whole.bytes


@dataclass
class QuietWatch:
    """Notices that nothing has changed for a while, and tells so now and then while it stays so."""

    _state: Hashable = None
    _next: float = 0.0

    def is_over(self, state: Hashable, now: float) -> bool:
        """Tell whether the state has been the same for QUIET_SECONDS; again after AGAIN_SECONDS. ``now``: seconds."""
        if state != self._state:
            self._state, self._next = state, now + QUIET_SECONDS
        if now < self._next:
            return False
        self._next = now + AGAIN_SECONDS
        return True

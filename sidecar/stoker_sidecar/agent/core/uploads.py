"""How much this node gives to others: so much at a time, and so fast. Pure."""

from typing import Final, NamedTuple

# Seconds' worth of bytes that may be sent at once after a while of nothing.
_BURST = 1.0
# Bytes a second at which one file or piece is sent at least, where others are sent too.
_SLOWEST = 4_000_000


class UploadLimits(NamedTuple):
    """What is given at most. ``at_once``: files and pieces at a time, to all nodes together; 0: nothing is given.

    ``bytes_per_second``: 0 for no limit.
    """

    at_once: int = 16
    bytes_per_second: int = 0

    @property
    def served(self) -> int:
        """How many are served at a time: of what is slower than ``_SLOWEST`` who asked gives up."""
        most = self.bytes_per_second // _SLOWEST if self.bytes_per_second else self.at_once
        return max(1, min(self.at_once, most))

    @property
    def to_warm(self) -> int:
        """How many of these may be for nobody who waits: of eight one is left to readers."""
        return self.served - self.served // 8

    @property
    def relayed(self) -> int:
        """How many of these may be pieces that are still on their way here: what is whole is always given, too."""
        return self.served * 3 // 4


class Uploads:
    """Keeps what is sent within its rate."""

    def __init__(self, limits: UploadLimits) -> None:
        self._rate: Final = limits.bytes_per_second
        self._free_at = 0.0

    def pause(self, size: int, now: float) -> float:
        """Take so many bytes; return the seconds to wait before they are sent. ``now``: seconds of any clock."""
        if not self._rate:
            return 0.0
        self._free_at = max(self._free_at, now - _BURST) + size / self._rate
        return max(0.0, self._free_at - now)

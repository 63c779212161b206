"""Limits of uploads to peers: the number at a time, and the rate. Pure."""

from typing import Final, NamedTuple

# Burst after an idle time, as seconds at the full rate.
_BURST = 1.0
# Least bytes per second of each of several concurrent uploads.
_SLOWEST = 4_000_000


class UploadLimits(NamedTuple):
    """Upload limits. ``at_once``: files and pieces at a time, to all peers together; 0: no uploads.

    ``bytes_per_second``: 0 for no limit.
    """

    at_once: int = 16
    bytes_per_second: int = 0

    @property
    def served(self) -> int:
        """Number of concurrent uploads. Peers give up on uploads slower than ``_SLOWEST``."""
        most = self.bytes_per_second // _SLOWEST if self.bytes_per_second else self.at_once
        return max(1, min(self.at_once, most))

    @property
    def to_warm(self) -> int:
        """Number of concurrent uploads for warm-ups. One in eight is reserved for waiting readers."""
        return self.served - self.served // 8


class Uploads:
    """Limits uploads to their rate."""

    def __init__(self, limits: UploadLimits) -> None:
        self._rate: Final = limits.bytes_per_second
        self._free_at = 0.0

    def pause(self, size: int, now: float) -> float:
        """Reserve ``size`` bytes. Return the seconds to wait before sending them. ``now``: seconds of any clock."""
        if not self._rate:
            return 0.0
        self._free_at = max(self._free_at, now - _BURST) + size / self._rate
        return max(0.0, self._free_at - now)

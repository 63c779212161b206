"""Telemetry of a dataset besides its status: counts for metrics, speeds, and notices that become events."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from stoker_api.names import Reason
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.wire.fetcher_protocol import AHEAD_BYTES, FETCH_ERRORS, FETCHED_BYTES, PEER_BYTES, Count, Notice

# The agent reads them every second. Events beyond this rate have no reader.
_KEPT = 32
WINDOW = 10.0  # seconds: steady enough to read, quick enough to show a stall


@dataclass
class Speed:
    """A mean of bytes a second over about ten seconds.

    ``updated``: seconds of the caller's clock at the last ``tick``.
    """

    updated: float
    value: float = 0.0
    pending: int = 0
    started: bool = False
    moved: float = 0.0  # when bytes last arrived

    def add(self, size: int) -> None:
        """Count bytes that arrived."""
        self.pending += size

    def tick(self, now: float) -> float:
        """Add the arrivals since the last tick. Return the mean in bytes a second."""
        elapsed = now - self.updated
        if elapsed <= 0:
            return self.value
        self.moved = now if self.pending else self.moved
        if now - self.moved > WINDOW:  # at rest: a tail that never quite ends would be a new status every few seconds
            self.value, self.started = 0.0, False
        weight = 1.0 - math.exp(-elapsed / WINDOW) if self.started else 1.0
        self.value += weight * (self.pending / elapsed - self.value)
        self.started = self.started or self.pending > 0
        self.updated, self.pending = now, 0
        return self.value


class ArrivalSpeeds:
    """Speeds of arrivals from the source, and from other nodes. ``now``: seconds of the caller's clock."""

    def __init__(self, now: float) -> None:
        self.source, self.peers = Speed(now), Speed(now)

    def tick(self, now: float) -> float:
        """Add the arrivals since the last tick. Return the mean of both together, in bytes a second."""
        return self.source.tick(now) + self.peers.tick(now)

    @property
    def of_source_alone(self) -> float | None:
        """The mean from the source; None while peers give as well, since the source then runs below its speed."""
        return None if self.peers.value else self.source.value


def eta_seconds(left: int, speed: float) -> int | None:
    """Return the seconds until ``left`` bytes are here; None when nothing moves. Half a byte a second is nothing."""
    return math.ceil(left / speed) if speed >= 0.5 else None


class Telemetry:
    """Measurements of one dataset since the start of this process: counts, and the speed of arrivals.

    ``now``: seconds of the node's clock.
    """

    def __init__(self, now: float) -> None:
        self.speeds = ArrivalSpeeds(now)
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, amount: int = 1, label: str = "") -> None:
        """Count. ``name``: a name in wire.fetcher_protocol; ``label``: of a closed set of words."""
        self._counts[name, label] += amount

    def arrived(self, size: int) -> None:
        """Count bytes from a source."""
        self.speeds.source.add(size)
        self._counts[FETCHED_BYTES, ""] += size

    @property
    def peer_bytes(self) -> int:
        """Bytes that other nodes gave so far."""
        return self._counts[PEER_BYTES, ""]

    @property
    def fetched_bytes(self) -> int:
        """Bytes from a source so far."""
        return self._counts[FETCHED_BYTES, ""]

    def gave(self, size: int) -> None:
        """Count bytes of a file that another node gave."""
        self.speeds.peers.add(size)
        self._counts[PEER_BYTES, ""] += size

    def came_ahead(self, size: int) -> None:
        """Count bytes of a whole piece that was prefetched before any request."""
        self._counts[AHEAD_BYTES, ""] += size

    @property
    def came(self) -> int:
        """Bytes from any source or peer so far."""
        return self._counts[FETCHED_BYTES, ""] + self._counts[PEER_BYTES, ""]

    def failed(self, error: SidecarError) -> None:
        """Count a piece that could not be fetched."""
        self._counts[FETCH_ERRORS, error.reason] += 1

    def rows(self, uid: str) -> tuple[Count, ...]:
        """Return the counts for the dataset ``uid``, in order."""
        return tuple(Count(uid, name, label, value) for (name, label), value in sorted(self._counts.items()))


class NewBytes:
    """Counts the bytes of one piece from reports of its progress. A retry may restart it."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._here = 0

    def come_to(self, here: int) -> None:
        """Count the new bytes: all of them after a restart."""
        self._count(here - self._here if here > self._here else here)
        self._here = here


class Notices:
    """The last few notices that are to be reported once.

    Numbers grow across restarts of the fetcher, so that no notice is repeated or missed. ``now``: seconds since 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._number = int(now() * 1000)
        self._last: deque[Notice] = deque(maxlen=_KEPT)

    def tell(self, uid: str, reason: Reason, message: str) -> None:
        """Add a notice. ``uid``: of its dataset; empty for the node."""
        self._number += 1
        self._last.append(Notice(self._number, uid, str(reason), message))

    @property
    def last(self) -> tuple[Notice, ...]:
        """The oldest first."""
        return tuple(self._last)

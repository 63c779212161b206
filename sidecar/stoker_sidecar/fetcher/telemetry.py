"""What the fetcher tells of a dataset beside its status: counts for metrics, and notices that become events."""

import time
from collections import Counter, deque
from collections.abc import Callable

from stoker_api.names import Reason
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.core.rates import ArrivalSpeeds
from stoker_sidecar.wire.fetcher_protocol import AHEAD_BYTES, FETCH_ERRORS, FETCHED_BYTES, PEER_BYTES, Count, Notice

# The agent reads them every second; more than this in a second is a flood that nobody would read.
_KEPT = 32


class Telemetry:
    """What is measured of one dataset from the start of this process on: counts, and how fast its bytes arrive.

    ``now``: seconds of the node's clock.
    """

    def __init__(self, now: float) -> None:
        self.speeds = ArrivalSpeeds(now)
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, amount: int = 1, label: str = "") -> None:
        """Count. ``name``: one of those in wire.fetcher_protocol; ``label``: of a closed set of words."""
        self._counts[name, label] += amount

    def arrived(self, size: int) -> None:
        """Count bytes that came from a source."""
        self.speeds.source.add(size)
        self._counts[FETCHED_BYTES, ""] += size

    @property
    def peer_bytes(self) -> int:
        """Bytes that other nodes gave so far."""
        return self._counts[PEER_BYTES, ""]

    @property
    def fetched_bytes(self) -> int:
        """Bytes that came from a source so far."""
        return self._counts[FETCHED_BYTES, ""]

    def gave(self, size: int) -> None:
        """Count bytes of a file that another node gave."""
        self.speeds.peers.add(size)
        self._counts[PEER_BYTES, ""] += size

    def came_ahead(self, size: int) -> None:
        """Count bytes of a whole piece that came before any reader asked for them."""
        self._counts[AHEAD_BYTES, ""] += size

    @property
    def came(self) -> int:
        """Bytes that came, from wherever, so far."""
        return self._counts[FETCHED_BYTES, ""] + self._counts[PEER_BYTES, ""]

    def failed(self, error: SidecarError) -> None:
        """Count a piece that could not be fetched."""
        self._counts[FETCH_ERRORS, error.reason] += 1

    def rows(self, uid: str) -> tuple[Count, ...]:
        """Return the counts as those of the dataset ``uid``, in order."""
        return tuple(Count(uid, name, label, value) for (name, label), value in sorted(self._counts.items()))


class NewBytes:
    """Counts the bytes of one piece, of which is told how far it has come; who brings it may begin anew."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._here = 0

    def come_to(self, here: int) -> None:
        """Count what is new: all of it when it has begun anew."""
        self._count(here - self._here if here > self._here else here)
        self._here = here


class Notices:
    """The last few happenings that people should be told of once.

    Numbers grow across restarts of the fetcher, so that none is told twice or missed. ``now``: seconds since 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._number = int(now() * 1000)
        self._last: deque[Notice] = deque(maxlen=_KEPT)

    def tell(self, uid: str, reason: Reason, message: str) -> None:
        """Add a notice. ``uid``: of the dataset that it is about; empty for the node."""
        self._number += 1
        self._last.append(Notice(self._number, uid, str(reason), message))

    @property
    def last(self) -> tuple[Notice, ...]:
        """The oldest first."""
        return tuple(self._last)

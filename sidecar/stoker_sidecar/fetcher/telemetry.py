"""What the fetcher tells of a dataset beside its status: counts for metrics, and notices that become events."""

import time
from collections import Counter, deque
from collections.abc import Callable

from stoker_api.names import Reason
from stoker_sidecar.wire.fetcher_protocol import Count, Notice


class Counts:
    """From the start of this process on."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, amount: int = 1, label: str = "") -> None:
        """``name``: one of wire.fetcher_protocol.COUNTS; ``label``: of a closed set of words."""
        self._counts[name, label] += amount

    def rows(self, uid: str) -> tuple[Count, ...]:
        """Of this dataset, in order."""
        return tuple(Count(uid, name, label, value) for (name, label), value in sorted(self._counts.items()))


# The agent reads them every second; more than this in a second is a flood that nobody would read.
_KEPT = 32


class Notices:
    """Numbers grow across restarts of the fetcher, so that none is told twice or missed. ``now``: seconds since 1970."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._number = int(now() * 1000)
        self._last: deque[Notice] = deque(maxlen=_KEPT)

    def tell(self, uid: str, reason: Reason, message: str) -> None:
        """``uid``: of the dataset that it is about; empty for the node."""
        self._number += 1
        self._last.append(Notice(self._number, uid, str(reason), message))

    @property
    def last(self) -> tuple[Notice, ...]:
        """The oldest first."""
        return tuple(self._last)

"""What people should be told once: the last few happenings, for the agent to make events of."""

import time
from collections import deque
from collections.abc import Callable

from stoker_api.names import Reason
from stoker_sidecar.wire.fetcher_protocol import Notice

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

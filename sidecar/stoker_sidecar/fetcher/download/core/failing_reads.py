"""Failures of pods' reads: which failures are reported, and when they end. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from stoker_api.meta import shortened
from stoker_api.names import Reason
from stoker_sidecar.errors import NotConfigured, NotWanted, SidecarError

# Seconds that a temporary failure lasts before it is reported.
LASTING = 5.0
# Seconds that a failure is reported after reads work again: a store that flaps causes one report.
CALM = 10.0
# Seconds that a failure is reported after the last failing read, if no read has worked since: its pod may be gone.
OLD = 600.0
# Failures of a single object. A read of a different object does not end them.
_OF_AN_OBJECT = frozenset(
    {
        Reason.ACCESS_DENIED,
        Reason.INVALID_SPEC,
        Reason.SERVER_ERROR,
        Reason.SOURCE_CHANGED,
        Reason.OBJECT_GONE,
        Reason.CORRUPT_BODY,
    }
)
_MOST_PATH, _MOST_MESSAGE = 300, 700  # characters


@dataclass(frozen=True)
class FailingRead:
    """A failure of reads, with one of them as the example.

    ``since``: seconds since 1970 of its first read; ``digest``: the version that was read.
    """

    reason: Reason
    message: str
    temporary: bool
    since: float
    digest: str
    path: str


@dataclass
class _ReadFailure:
    """Failures with one reason. ``began``, ``last`` and ``worked`` are seconds of a monotonic clock."""

    read: FailingRead
    ino: int
    began: float
    last: float
    worked: float | None = None
    given: bool = False  # a reader got the error

    def is_over(self, now: float) -> bool:
        if self.worked is not None and now - max(self.worked, self.last) >= CALM:
            return True
        return now - self.last >= OLD

    def is_reported(self, now: float) -> bool:
        return self.given or not self.read.temporary or now - self.began >= LASTING


class FailingReadTimer:
    """The failures of one Dataset's reads, by reason. ``now``: seconds of a monotonic clock in each call."""

    def __init__(self) -> None:
        self._by_reason: dict[Reason, _ReadFailure] = {}

    def __bool__(self) -> bool:
        """Return True while a read that works may end a failure."""
        return bool(self._by_reason)

    def failed(
        self,
        error: SidecarError,
        place: tuple[str, int],
        path: Callable[[], str],
        now: float,
        wall: float,
        *,
        waits: bool = True,
    ) -> FailingRead | None:
        """Note that a reader waits, or gets an error; return the failure if it is new.

        ``place``: version and inode; ``wall``: seconds since 1970; ``waits``: the reader does not get the error yet.
        """
        if isinstance(error, NotConfigured | NotWanted):
            return None
        known = self._by_reason.get(error.reason)
        if known is not None and not known.is_over(now):
            known.last, known.worked, known.given = now, None, known.given or not waits
            return None
        digest, ino = place
        shown = shortened(path(), _MOST_PATH)
        message = shortened(error.message, _MOST_MESSAGE)
        read = FailingRead(error.reason, message, error.temporary, wall, digest, shown)
        self._by_reason[error.reason] = _ReadFailure(read, ino, now, now, given=not waits)
        return read

    def worked(self, ino: int, now: float) -> None:
        """Note that a file, or a piece of one, has arrived."""
        for reason, known in list(self._by_reason.items()):
            if reason in _OF_AN_OBJECT and known.ino != ino:
                continue
            if not known.is_reported(now):
                del self._by_reason[reason]
            elif known.worked is None:
                known.worked = now

    def renewed(self, now: float) -> None:
        """Note that the source or the credentials changed: earlier failures may be over."""
        for known in self._by_reason.values():
            known.worked = now

    def current(self, now: float) -> FailingRead | None:
        """Return the oldest failure to report; None if no read fails."""
        for reason in [reason for reason, known in self._by_reason.items() if known.is_over(now)]:
            del self._by_reason[reason]
        reported = (known for known in self._by_reason.values() if known.is_reported(now))
        first = min(reported, key=lambda known: known.began, default=None)
        return first.read if first is not None else None

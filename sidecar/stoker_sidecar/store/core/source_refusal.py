"""Remembers that a source refuses every request or denies objects, and paces the requests that try it again. Pure."""

from enum import Enum
from math import inf
from typing import Final
from weakref import WeakValueDictionary

from stoker_api.datasets.dataset_source import Source
from stoker_api.names import Reason
from stoker_sidecar.errors import (
    AccessDenied,
    BucketNotFound,
    DeniedEarlier,
    EndpointNotAllowed,
    InvalidCredentials,
    SidecarError,
    copy_of,
)
from stoker_sidecar.wire.credentials import Credentials

# Seconds until the next probe of a source that refuses everything: doubled after each refused probe.
FIRST, MOST = 2.0, 15.0
_OF_THE_SOURCE = (InvalidCredentials, BucketNotFound, EndpointNotAllowed)
# Reasons for which a source refuses or lacks one object only, after it accepted the request.
_OF_AN_OBJECT = frozenset(
    {Reason.ACCESS_DENIED, Reason.INVALID_SPEC, Reason.SERVER_ERROR, Reason.SOURCE_CHANGED, Reason.OBJECT_GONE}
)


def refuses_all(error: BaseException) -> bool:
    """Return True if the error is the same for every object of the source, such as an unknown access key."""
    return isinstance(error, _OF_THE_SOURCE)


class SourceRefusal:
    """The last refusal of one source for one identity. Times are seconds of a monotonic clock.

    While the source refuses everything, `admit` lets one request through every few seconds. All other requests get the
    remembered refusal, so readers cost the source nothing.
    """

    def __init__(self) -> None:
        self._error: SidecarError | None = None
        self._count = 0
        self._wait = FIRST
        self._again = 0.0

    @property
    def refuses(self) -> bool:
        """True while the last answer that counts was a refusal of everything."""
        return self._error is not None

    def check(self, now: float) -> None:
        """Raise the remembered refusal unless a request may go now."""
        if self._error is not None and now < self._again:
            raise copy_of(self._error)

    def admit(self, now: float) -> int:
        """Let a request through; return its ticket for `answered`. Raises the remembered refusal."""
        self.check(now)
        self._again = now + self._wait  # unused while the source refuses nothing
        return self._count

    def answered(self, ticket: int, error: BaseException | None, now: float) -> None:
        """Take the result of a request. ``error``: None if it succeeded.

        Answers to requests that began before the last refusal do not clear it: large bodies may arrive long after.
        """
        if error is not None and refuses_all(error) and isinstance(error, SidecarError):
            self._refused(error, ticket, now)
        elif ticket == self._count and (error is None or _was_let_in(error)):
            self._error, self._wait = None, FIRST

    def _refused(self, error: SidecarError, ticket: int, now: float) -> None:
        if self._error is None:
            self._again = now + self._wait
        elif ticket == self._count:  # a probe, not an earlier request
            self._wait = min(MOST, 2 * self._wait)
            self._again = now + self._wait
        else:
            return
        self._error, self._count = error, self._count + 1


class SourceRefusals:
    """The refusals of one node. Datasets with the same bucket and identity share a refusal and its probes."""

    def __init__(self) -> None:
        self._known: Final[WeakValueDictionary[tuple[object, ...], SourceRefusal]] = WeakValueDictionary()

    def of(self, source: Source, credentials: Credentials) -> SourceRefusal:
        """Return the refusal of a source for an identity. It is forgotten with its last user."""
        bucket = source.uri.partition("://")[2].partition("/")[0]
        key = (bucket, source.endpoint, source.region, source.addressing_style, credentials)
        return self._known.setdefault(key, SourceRefusal())


def _was_let_in(error: BaseException) -> bool:
    return isinstance(error, SidecarError) and not error.temporary and error.reason in _OF_AN_OBJECT


# Seconds between two requests to a store that denies everything, of all its Datasets on a node: doubled after each.
PACE, MOST_PACE = 2.0, 8.0
# Denials in a row until the source is suspected; and after a check has shown that it lets this identity in. The second
# number doubles with each such check in a row.
FEW, MANY, MOST_DENIALS = 5, 50, 1600
# Seconds for which such a check counts.
_TRUSTED = 30.0


class Turn(Enum):
    """The next step of a request to a suspected source."""

    SEND = "send it"
    CHECK = "first read an object that was readable"


class DenialPace:
    """When a store that denies everything may be asked again: seconds of a monotonic clock."""

    def __init__(self) -> None:
        self.again = -inf
        self._wait = PACE

    def take(self, now: float) -> None:
        """Take a turn."""
        self.again, self._wait = now + self._wait, min(MOST_PACE, 2 * self._wait)

    def reset(self) -> None:
        """Note that an object could be read."""
        self._wait = PACE


class SourceDenials:
    """The denials of one source for one identity. Times are seconds of a monotonic clock.

    A denial holds for one object, since policies differ by prefix. After several in a row, an object that was readable
    is read again. If it is denied too, requests go at a slow pace until one is let in.
    """

    def __init__(self, pace: DenialPace | None = None) -> None:
        self._pace = pace or DenialPace()
        self._error: AccessDenied | None = None
        self._row = 0
        self._trusted_until = -inf
        self._allowed = MANY
        self._turns = 0

    def suspects(self, now: float) -> bool:
        """Return True if the last answers were denials, so that a request needs a turn."""
        return self._row >= FEW and self._row >= (self._allowed if now < self._trusted_until else FEW)

    def turn(self, now: float) -> Turn:
        """Take the next turn of a suspected source: first for a check, and after one that failed for a request.

        Raises DeniedEarlier before the next turn is due.
        """
        if now < self._pace.again:
            raise self.denied_earlier(now)
        self._pace.take(now)
        self._turns += 1
        return Turn.CHECK if self._turns % 2 else Turn.SEND

    def denied_earlier(self, now: float) -> DeniedEarlier:
        """Return the error of a request that was not sent. ``retry_after``: the seconds until the next turn."""
        example = self._error.message if self._error is not None else "no example"
        wait = max(0.0, self._pace.again - now)
        return DeniedEarlier(f"the source denies its objects, such as: {example}", retry_after=wait)

    def checked(self, now: float) -> None:
        """Note that an object could be read: the denials are of single objects."""
        if self._row >= FEW:
            self._allowed = min(MOST_DENIALS, 2 * self._allowed) if now < self._trusted_until else MANY
        self._row, self._turns, self._trusted_until = 0, 0, now + _TRUSTED
        self._pace.reset()

    def answered(self, error: BaseException | None, now: float) -> None:
        """Take the result of a request. ``error``: None if it succeeded."""
        if isinstance(error, AccessDenied):
            self._error, self._row = error, self._row + 1
        elif self._row and error is None:
            self.checked(now)


class DenialsOfNode:
    """The denials of one node. Datasets with the same source and identity share them, and all of a bucket the pace."""

    def __init__(self) -> None:
        self._known: Final[WeakValueDictionary[tuple[object, ...], SourceDenials]] = WeakValueDictionary()
        self._paces: Final[WeakValueDictionary[tuple[object, ...], DenialPace]] = WeakValueDictionary()

    def of(self, source: Source, credentials: Credentials) -> SourceDenials:
        """Return the denials of a source for an identity. They are forgotten with their last user."""
        bucket = source.uri.partition("://")[2].partition("/")[0]
        pace = self._paces.setdefault((bucket, source.endpoint), DenialPace())
        key = (source.uri, source.endpoint, source.region, source.addressing_style, credentials)
        return self._known.setdefault(key, SourceDenials(pace))

"""Paces the requests to a source that denies one object after the other. Pure."""

from enum import Enum
from math import inf
from typing import Final
from weakref import WeakValueDictionary

from stoker_api.datasets.dataset_source import Source
from stoker_sidecar.errors import AccessDenied, DeniedEarlier
from stoker_sidecar.wire.credentials import Credentials

# Seconds between two requests to a store that denies everything, of all its Datasets on a node: doubled after each.
PACE, MOST_PACE = 2.0, 8.0
# Denials in a row until the source is suspected; and after a check has shown that it lets this identity in. The second
# number doubles with each such check in a row.
FEW, MANY, MOST = 5, 50, 1600
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
            self._allowed = min(MOST, 2 * self._allowed) if now < self._trusted_until else MANY
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

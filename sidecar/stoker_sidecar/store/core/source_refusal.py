"""Remembers that a source refuses every request, and decides when one request may try it again. Pure."""

from typing import Final
from weakref import WeakValueDictionary

from stoker_api.datasets.dataset_source import Source
from stoker_api.names import Reason
from stoker_sidecar.errors import BucketNotFound, EndpointNotAllowed, InvalidCredentials, SidecarError, copy_of
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

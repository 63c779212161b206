"""Decides when refused objects are requested again: one such object must not delay any other."""

from stoker_api.names import Reason
from stoker_sidecar.errors import DeniedEarlier, SidecarError, SourceError

# Seconds until refused objects are asked for again; doubles each time, since a refusal costs a request for each object.
FIRST, MOST = 600.0, 6 * 3600.0
_OF_AN_OBJECT = frozenset({Reason.ACCESS_DENIED, Reason.INVALID_SPEC, Reason.SERVER_ERROR})
_OUTDATED = frozenset({Reason.SOURCE_CHANGED, Reason.OBJECT_GONE})


def is_of_an_object(error: SidecarError) -> bool:
    """Return True if the source answered and refused this object alone, as far as is known.

    Examples: an archived object, an object with a key that this identity may not use, or a deleted one.
    """
    if isinstance(error, DeniedEarlier):  # the object was not requested
        return False
    return not error.temporary and error.reason in _OF_AN_OBJECT | _OUTDATED


def is_unreadable(error: SidecarError) -> bool:
    """Return True if the object is as it was listed, and may not be read."""
    return is_of_an_object(error) and error.reason in _OF_AN_OBJECT


class RefusedFolders:
    """Folders without prefetches, since the source refused an object there.

    After a refusal, this includes every folder until a file arrives.
    """

    def __init__(self) -> None:
        self._folders: set[int] = set()  # inodes
        self._last = False  # the last answer was a refusal

    def __bool__(self) -> bool:
        """Return True while there is one."""
        return bool(self._folders)

    def __contains__(self, folder: int) -> bool:
        """Return True while nothing is fetched ahead in this folder."""
        return self._last or folder in self._folders

    def landed(self, folder: int, error: SidecarError | None) -> None:
        """Learn from a fetch of a file in this folder. ``error``: None on success."""
        if error is None:
            self._folders.discard(folder)
            self._last = False
        elif not error.temporary and isinstance(error, SourceError):
            self._folders.add(folder)
            self._last = True


class Refusals:
    """The refused objects of one version: the error of one of them, and when all are asked for again."""

    def __init__(self) -> None:
        self.error: SidecarError | None = None
        self._wait = FIRST
        self._again = 0.0

    def note(self, error: SidecarError, now: float) -> None:
        """Note a pass in which objects were refused. ``now``: seconds."""
        if now >= self._again:
            self._again, self._wait = now + self._wait, min(2 * self._wait, MOST)
        self.error = error

    def reset(self) -> None:
        """Ask again at the next pass: credentials may have changed, or all objects are readable."""
        self.error, self._wait, self._again = None, FIRST, 0.0

    def left(self, now: float) -> float:
        """Return the seconds until they are asked for again; 0.0 once that is due."""
        return max(0.0, self._again - now)


class DeniedObjects:
    """Objects that the source denied, with their errors. ``now``: seconds of a monotonic clock in each call."""

    # Seconds in which reads of a denied object get its error without a request, and the number of remembered objects.
    FRESH, MOST = 5.0, 10_000

    def __init__(self) -> None:
        self._errors: dict[int, tuple[SidecarError, float]] = {}

    def __len__(self) -> int:
        """Return the number of remembered objects."""
        return len(self._errors)

    def note(self, ino: int, error: SidecarError, now: float) -> None:
        """Remember the error of an object; forget the oldest one if there are too many."""
        self._errors.pop(ino, None)
        self._errors[ino] = error, now
        if len(self._errors) > self.MOST:
            del self._errors[next(iter(self._errors))]

    def forget(self, ino: int) -> None:
        """Note that an object has arrived."""
        self._errors.pop(ino, None)

    def clear(self) -> None:
        """Note that the source or its credentials changed."""
        self._errors.clear()

    def error(self, ino: int) -> SidecarError | None:
        """Return the error of an object, however old."""
        known = self._errors.get(ino)
        return known[0] if known is not None else None

    def fresh(self, ino: int, now: float) -> SidecarError | None:
        """Return the error of an object that was denied just now."""
        known = self._errors.get(ino)
        return known[0] if known is not None and now - known[1] < self.FRESH else None

"""Errors of single objects in a decision about all objects. An error of one does not affect the rest."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

T = TypeVar("T")


class FailedObjects(Mapping[str, str]):
    """The objects of one pass whose decision failed: key -> the message for their owner."""

    def __init__(self) -> None:
        self._errors: Final[dict[str, Exception]] = {}

    def attempt(self, key: str, work: Callable[[], T]) -> T | None:
        """Return ``work()``. If it raises, return None and record the error of ``key``."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 -- the boundary of an object
            self._errors.setdefault(key, error)
            return None

    def succeeds(self, key: str, work: Callable[[], None]) -> bool:
        """Call ``work()``. If it raises, return False and record the error of ``key``."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- the boundary of an object
            self._errors.setdefault(key, error)
            return False
        return True

    def error(self, key: str) -> Exception | None:
        """Return the first error for ``key``."""
        return self._errors.get(key)

    def __getitem__(self, key: str) -> str:
        return f"internal error, please report it: {self._errors[key]!r}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._errors)

    def __len__(self) -> int:
        return len(self._errors)

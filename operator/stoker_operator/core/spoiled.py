"""The boundary of an object inside a decision about all: what cannot be worked out for one leaves the others theirs."""

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final, TypeVar

T = TypeVar("T")


class Spoiled(Mapping[str, str]):
    """The objects of one pass for which something could not be worked out: key -> the sentence for their owner."""

    def __init__(self) -> None:
        self._errors: Final[dict[str, Exception]] = {}

    def attempt(self, key: str, work: Callable[[], T]) -> T | None:
        """Return what ``work()`` gives; None when it raises, and then ``key`` is spoiled from now on."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 -- the boundary of an object
            self._errors.setdefault(key, error)
            return None

    def steps(self, key: str, work: Callable[[], Iterator[None]]) -> Generator[None, None, bool]:
        """Take the steps of ``work()``; gives False when it raises, and then ``key`` is spoiled from now on."""
        try:
            yield from work()
        except Exception as error:  # noqa: BLE001 -- the boundary of an object
            self._errors.setdefault(key, error)
            return False
        return True

    def error(self, key: str) -> Exception | None:
        """Return what was raised first for ``key``."""
        return self._errors.get(key)

    def __getitem__(self, key: str) -> str:
        return f"it cannot be worked out what to do, please report this: {self._errors[key]!r}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._errors)

    def __len__(self) -> int:
        return len(self._errors)

"""Long work that is done in steps, between which others have their turn."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]


def finished(work: Steps[T]) -> T:
    """Do all of it at once, and return what comes of it."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result

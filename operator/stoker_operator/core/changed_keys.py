"""What differs between two states of a table: identity tells, since rows are frozen and a change makes a new one."""

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final, TypeVar

K = TypeVar("K")
T = TypeVar("T")

_REMEMBERED = 4096  # changes of a table: some passes' worth, of thousands of nodes that report; else rows are compared


class ChangeLog:
    """The keys of a table that changed last, so that two of its snapshots need not be compared row by row."""

    def __init__(self) -> None:
        self.changes = 0  # so far
        self._last: Final[deque[str]] = deque(maxlen=_REMEMBERED)

    def note(self, key: str) -> None:
        """Take note that another row, or none, is under ``key`` now."""
        self.changes += 1
        self._last.append(key)

    def since(self, changes: int) -> Iterable[str] | None:
        """Return the keys of all changes since there were so many of them; None when that is not remembered."""
        new = self.changes - changes
        return dict.fromkeys(islice(reversed(self._last), new)) if 0 <= new <= len(self._last) else None


class Snapshot(dict[str, T]):
    """The rows of a table at one moment, which nobody changes; it knows what changed since an earlier one of them."""

    __slots__ = ("_at", "_log")

    def __init__(self, rows: Mapping[str, T], log: ChangeLog) -> None:
        super().__init__(rows)
        self._log: Final = log
        self._at: Final = log.changes

    def touched_since(self, other: Mapping[str, T]) -> Iterable[str] | None:
        """Return keys, of which some may be as they were; None when ``other`` is of another table, or too old."""
        if not isinstance(other, Snapshot) or other._log is not self._log or other._at > self._at:
            return None
        # What came after this one is in the log as well: it is the same here and there, or was touched before, too.
        return self._log.since(other._at)


def changed_keys(old: Mapping[str, T], new: Mapping[str, T]) -> list[str]:
    """Return the keys under which there is another object, or none any more."""
    if old is new:
        return []
    touched = new.touched_since(old) if isinstance(new, Snapshot) else None
    if touched is not None:
        return [key for key in touched if old.get(key) is not new.get(key)]
    found = [key for key, one in new.items() if old.get(key) is not one]
    added = sum(key not in old for key in found)
    if len(old) + added != len(new):
        found += [key for key in old if key not in new]
    return found


def changed_values(old: Mapping[str, T], new: Mapping[str, T]) -> list[str]:
    """Return those of them under which there is something else: rows that are made anew may say the same."""
    return [key for key in changed_keys(old, new) if old.get(key) != new.get(key)]


def swap(index: dict[K, set[T]], before: AbstractSet[K], after: AbstractSet[K], one: T) -> None:
    """Have ``one`` in the index under the keys ``after``, and no more under ``before``."""
    for key in before - after:
        index[key].discard(one)
        if not index[key]:
            del index[key]
    for key in after - before:
        index.setdefault(key, set()).add(one)

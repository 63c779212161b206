"""Find the differences of two states of a table by identity. Rows are frozen, so a change makes a new one."""

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final, TypeVar

K = TypeVar("K")
T = TypeVar("T")

_REMEMBERED = 4096  # changes of a table: a few passes of thousands of nodes; beyond that, rows are compared


class ChangeLog:
    """The last changed keys of a table, so that two snapshots need no comparison row by row."""

    def __init__(self) -> None:
        self.changes = 0  # total
        self._last: Final[deque[str]] = deque(maxlen=_REMEMBERED)

    def note(self, key: str) -> None:
        """Record that the row of ``key`` changed or was removed."""
        self.changes += 1
        self._last.append(key)

    def since(self, changes: int) -> Iterable[str] | None:
        """Return the keys of all changes after the first ``changes``. None: too old."""
        new = self.changes - changes
        return dict.fromkeys(islice(reversed(self._last), new)) if 0 <= new <= len(self._last) else None


class Snapshot(dict[str, T]):
    """The rows of a table at one moment. They never change. A snapshot knows the changes since an earlier one."""

    __slots__ = ("_at", "_log")

    def __init__(self, rows: Mapping[str, T], log: ChangeLog) -> None:
        super().__init__(rows)
        self._log: Final = log
        self._at: Final = log.changes

    def touched_since(self, other: Mapping[str, T]) -> Iterable[str] | None:
        """Return possibly changed keys. None: ``other`` is from another table, or too old."""
        if not isinstance(other, Snapshot) or other._log is not self._log or other._at > self._at:
            return None
        # The log also has changes after this snapshot. Their rows are equal in both, or were changed before too.
        return self._log.since(other._at)


def changed_keys(old: Mapping[str, T], new: Mapping[str, T]) -> list[str]:
    """Return the keys with a different object, or with none in ``new``."""
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
    """Return the keys with a different value. New objects may be equal to old ones."""
    return [key for key in changed_keys(old, new) if old.get(key) != new.get(key)]


def swap(index: dict[K, set[T]], before: AbstractSet[K], after: AbstractSet[K], one: T) -> None:
    """Move ``one`` in the index from the keys ``before`` to the keys ``after``."""
    for key in before - after:
        index[key].discard(one)
        if not index[key]:
            del index[key]
    for key in after - before:
        index.setdefault(key, set()).add(one)

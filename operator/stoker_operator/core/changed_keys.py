"""What differs between two states of a table: identity tells, since rows are frozen and a change makes a new one."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


def changed_keys(old: Mapping[str, T], new: Mapping[str, T]) -> list[str]:
    """Return the keys under which there is another object, or none any more."""
    if old is new:
        return []
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

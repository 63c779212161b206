"""Rows of which there are a hundred thousand, in a fifth of the memory that a model takes as it was read or made."""

from functools import cache
from typing import Any, Final, TypeVar

from pydantic import BaseModel

Row = TypeVar("Row", bound=BaseModel)
_MOST_SETS = 10_000  # ways to leave fields out that are remembered: nodes write rows, and may be of ill will
_MOST_NUMBERS = 10_000  # that are remembered: thousands of nodes say the same of a Dataset's size
_FEW = 5  # fields: a dictionary of its own is smaller than one that shares names, which has room for 30
_set = object.__setattr__  # what a frozen model has no word in
_given: Final[dict[frozenset[str], set[str]]] = {}
_numbers: Final[dict[int, int]] = {}


def compacted(row: Row) -> Row:
    """Return the same row with fields that share their names with those of all rows of its class.

    A validated model has a dictionary of its own, with the names in it and room for more. Python shares the names among
    the instances of a class, up to 30 of them, and among copies of what one instance has. Rows in which the same fields
    are given share the set of their names, too, which takes 2 KB for more than 18 of them.
    """
    if len(_numbers) >= _MOST_NUMBERS:
        _numbers.clear()
    # 40 of a NodeCache in one step of the event loop: what can be done for all fields at once is.
    kind, fields = type(row), _names_of(type(row)).copy()
    fields.update(vars(row))
    for name, value in fields.items():
        if type(value) is int:
            fields[name] = _numbers.setdefault(value, value)
    new = kind.__new__(kind)
    _set(new, "__dict__", fields)
    _set(new, "__pydantic_fields_set__", row.__pydantic_fields_set__)
    share_names(new)
    _set(new, "__pydantic_extra__", row.__pydantic_extra__)
    _set(new, "__pydantic_private__", row.__pydantic_private__)
    return new


def share_names(row: BaseModel) -> None:
    """Have it share the set of the names of those fields that are given with all in which these are the same."""
    if len(_given) >= _MOST_SETS:
        _given.clear()
    given = row.__pydantic_fields_set__
    _set(row, "__pydantic_fields_set__", _given.setdefault(frozenset(given), given))


@cache
def _names_of(kind: type[BaseModel]) -> dict[str, Any]:
    if len(kind.model_fields) <= _FEW:
        return {}

    class Holder:
        """Has the names of one model, set one by one before any other instance is made."""

    holder = Holder()
    for name in kind.model_fields:
        setattr(holder, name, None)
    return vars(holder)

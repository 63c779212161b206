"""Rows of which there are a hundred thousand, in a fifth of the memory that a model takes as it was read or made."""

from functools import cache
from sys import intern
from typing import Any, Final, TypeVar

from pydantic import BaseModel

Row = TypeVar("Row", bound=BaseModel)
_MOST_SETS = 10_000  # ways to leave fields out that are remembered: nodes write rows, and may be of ill will
_MOST_NUMBERS = 10_000  # that are remembered: thousands of nodes say the same of a Dataset's size
_FEW = 5  # fields: a dictionary of its own is smaller than one that shares names, which has room for 30
_given: Final[dict[frozenset[str], set[str]]] = {}
_numbers: Final[dict[int, int]] = {}
_set: Final = object.__setattr__


def compacted(row: Row) -> Row:
    """Return the same row with fields that share their names with those of all rows of its class.

    A validated model has a dictionary of its own, with the names in it and room for more. Python shares the names among
    the instances of a class, up to 30 of them, and among copies of what one instance has. Rows in which the same fields
    are given share the set of their names, too, which takes 2 KB for more than 18 of them. Texts and numbers that rows
    have alike are in memory once.
    """
    kind = type(row)
    fields = _no_fields(kind)
    fields.update(vars(row))
    given = row.__pydantic_fields_set__
    for name in given:
        value = fields[name]
        if value.__class__ in _SHARERS:
            fields[name] = _SHARERS[value.__class__](value)
    return remade(kind, fields, _shared_names(given))


def remade(kind: type[Row], fields: dict[str, Any], given: set[str]) -> Row:
    """Make a row of all its fields, which are right, and the names of those that are given; both are kept."""
    new = kind.__new__(kind)
    _set(new, "__dict__", fields)
    _set(new, "__pydantic_fields_set__", given)
    _set(new, "__pydantic_extra__", None)
    _set(new, "__pydantic_private__", None)
    return new


def new_fields(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a row of which none is given, with defaults; copies of it share the names in it.

    Raises TypeError for defaults that rows may not have in common.
    """
    fields = _no_fields(kind)
    for name, info in kind.model_fields.items():
        if info.default_factory is not None:
            raise TypeError(f"{kind.__name__}.{name} has no default that rows can share")
        fields[name] = None if info.is_required() else info.default
    return fields


def share_names(row: BaseModel) -> None:
    """Have it share the set of the names of those fields that are given with all in which these are the same."""
    _set(row, "__pydantic_fields_set__", _shared_names(row.__pydantic_fields_set__))


def _shared_names(given: set[str]) -> set[str]:
    if len(_given) >= _MOST_SETS:
        _given.clear()
    return _given.setdefault(frozenset(given), given)


def shared_number(value: int) -> int:
    """Return the one object for a number that rows have alike."""
    if len(_numbers) >= _MOST_NUMBERS:
        _numbers.clear()
    return _numbers.setdefault(value, value)


def _shared_texts(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(intern, value)) if value and value[0].__class__ is str else value


_SHARERS: Final[dict[type, Any]] = {str: intern, int: shared_number, tuple: _shared_texts}


def _no_fields(kind: type[BaseModel]) -> dict[str, Any]:
    names = _names_of(kind)
    return names.copy() if len(names) > _FEW else {}


@cache
def _names_of(kind: type[BaseModel]) -> dict[str, Any]:
    class Holder:
        """Has the names of one model, set one by one before any other instance is made."""

    holder = Holder()
    for name in kind.model_fields:
        setattr(holder, name, None)
    return vars(holder)

"""Reads objects of another release: an unknown value becomes its default, or its row is dropped. Pure."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)
Place = tuple[str | int, ...]  # of a value in JSON: names of fields and positions in lists
# Dropping a required value drops its row in the next round, and then the row's list.
_ROUNDS = 5


def itself(place: Place) -> Place:
    """Drop only the value."""
    return place


def read_tolerantly(
    model: type[M], raw: Mapping[str, Any], leave_out: Callable[[Place], Place | None] = itself
) -> tuple[M, tuple[Place, ...]]:
    """Return the object and the places of dropped values, which this release cannot read.

    ``leave_out`` returns the place to drop for an unreadable value; None means the value is mandatory. Raises
    ValidationError.
    """
    left: list[Place] = []
    first: ValidationError | None = None
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(raw), tuple(left)
        except ValidationError as error:
            first = first or error
            gone = {leave_out(_found(raw, detail)) for detail in error.errors(include_url=False)}
        places = {place for place in gone if place}
        if places != gone:
            break
        left += sorted(places, key=str)
        raw = _without(raw, places)
    assert first is not None
    raise first


def _found(raw: Any, detail: ErrorDetails) -> Place:
    """Return the innermost place of an error that exists in the JSON. For an absent value, return its parent."""
    place: list[str | int] = []
    for step in detail["loc"]:
        if isinstance(raw, Mapping) and step in raw:
            raw = raw[str(step)]
        elif isinstance(raw, list) and isinstance(step, int) and step < len(raw):
            raw = raw[step]
        else:
            break
        place.append(step)
    return tuple(place)


def _order(place: Place) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (0, step) for step in place]


def _without(raw: Mapping[str, Any], places: Iterable[Place]) -> Mapping[str, Any]:
    whole = copy.deepcopy(dict(raw))
    # Later positions of a list first, and inner places before outer ones.
    for place in sorted(places, key=_order, reverse=True):
        holder: Any = whole
        for step in place[:-1]:
            holder = holder[step]
        del holder[place[-1]]
    return whole

"""Paths of the pages. Names are quoted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import quote, urlencode

from stoker_cli.dashboard.core.views import Link, Pager

T = TypeVar("T")
ROWS = 50  # of a page of a table


@dataclass(frozen=True)
class PageRequest:
    """The time in seconds since the epoch, and the page numbers of tables. ``held``: of held pods, or of origins."""

    now: float
    page: int = 1
    held: int = 1


def path_of(view: str, *names: str) -> str:
    """Return the path of an object, such as ``/datasets/vision/imagenet``."""
    return "/" + "/".join((view, *(quote(name, safe="") for name in names)))


def link_to(view: str, key: str) -> Link:
    """Return a link to an object with this ``namespace/name``, or name."""
    return Link(key, path_of(view, *key.split("/", 1)))


def with_query(path: str, **query: str | int) -> str:
    """Return a path with the non-empty parameters of a query."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def page_of(
    items: Sequence[T],
    number: int,
    path: str,
    *,
    rows: int = ROWS,
    parameter: str = "page",
    query: Mapping[str, str | int] = MappingProxyType({}),
) -> tuple[Sequence[T], Pager]:
    """Return the items of a page, counted from 1, and the links to the pages around it. A wrong number is corrected.

    ``parameter``: the name of the page number in the query. ``query``: other parameters of the links.
    """
    pages = max(1, -(-len(items) // rows))
    number = min(max(1, number), pages)
    first = (number - 1) * rows
    shown = items[first : first + rows]
    text = f"{first + 1:,} to {first + len(shown):,} of {len(items):,}" if shown else "none"
    before, after = (with_query(path, **query, **{parameter: to}) for to in (number - 1, number + 1))
    return shown, Pager(text, before if number > 1 else "", after if number < pages else "")

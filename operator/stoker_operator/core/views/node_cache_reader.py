"""Read NodeCaches so that equal parts of thousands of them are in memory once, such as texts and peers."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from sys import intern
from typing import Any, Final

from msgspec.structs import astuple, fields, force_setattr

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import PeerLinks
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.profiles.tuning import NodeTuning
from stoker_api.rows import RowStruct
from stoker_api.tolerant import Place, read_tolerantly

_MOST_SHARED = 100_000  # remembered values; rows come from nodes, which may be malicious
_SHARED = frozenset({str, tuple, Source, PeerLinks, NodeTuning})  # types of values that many rows have


class NodeCacheReader:
    """The reader of all NodeCaches."""

    def __init__(self) -> None:
        self._values: Final[dict[Hashable, Any]] = {}

    def view(self, raw: Mapping[str, Any]) -> NodeCache:
        """Read a raw NodeCache. Unknown values of another release get their defaults.

        Raises ValidationError.
        """
        cache, _ = read_tolerantly(NodeCache, raw, _left_out)
        for row in (*cache.spec.datasets, *cache.status.datasets):
            self._share_values(row)
        return cache

    def _share_values(self, row: RowStruct) -> None:
        """Replace the values of a new row with equal ones of earlier rows."""
        for name, default, value in zip(*_fields(row.__class__), astuple(row), strict=True):
            if value is not default and value.__class__ in _SHARED:
                force_setattr(row, name, self._values.get(value) or self._remembered(value))

    def _remembered(self, value: Hashable) -> Hashable:
        if len(self._values) >= _MOST_SHARED:
            self._values.clear()
        shared: Hashable = self._values.setdefault(value, _interned(value))
        return shared


@cache
def _fields(kind: type[RowStruct]) -> tuple[Sequence[str], Sequence[Any]]:
    """Return the names and the defaults of a row's fields."""
    return kind.__struct_fields__, [field.default for field in fields(kind)]


def _interned(value: Any) -> Any:
    if value.__class__ is str:
        return intern(value)
    return tuple(map(_interned, value)) if value.__class__ is tuple else value


def _left_out(place: Place) -> Place | None:
    """Allow the reader to drop fields of rows in the spec.

    A dropped row would look like a Dataset that was never assigned.
    """
    least = {"status": 2, "spec": 4}.get(str(place[0]), len(place) + 1) if place else 1
    return place if len(place) >= least else None

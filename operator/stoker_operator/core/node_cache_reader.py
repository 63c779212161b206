"""Reads NodeCaches so that what thousands of them say alike is in memory once: texts, and the sources of Datasets."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from pydantic import ValidationError

from stoker_api.dataset_source import Source
from stoker_api.node_dataset import NeighbourGroups, NodeDataset
from stoker_api.nodecache import NodeCache, NodeDatasetStatus, spread_spec
from stoker_operator.core.compact_rows import Row, compacted, share_names
from stoker_operator.core.row_reader import REFUSED, Read, RowReader

_MOST_SOURCES = 10_000  # that are remembered; a cluster has as many as Datasets

Raw = Mapping[str, Any]
_set: Final = object.__setattr__


class NodeCacheReader:
    """The reader of all NodeCaches."""

    def __init__(self) -> None:
        self._sources: Final[dict[str, tuple[Raw, Source]]] = {}  # by what was read: see _source
        groups = partial(_read, RowReader(NeighbourGroups))
        readers: dict[str, Read] = {"source": self._source, "groups": groups}
        self._entries: Final = RowReader(NodeDataset, readers, alike=("peers", "groups"))
        self._rows: Final = RowReader(NodeDatasetStatus)

    def view(self, raw: Raw) -> NodeCache:
        """Read one as it came. Raises ValidationError."""
        raw = _with_neighbours(raw)
        parts = dict(_with_rows(raw, "spec", self._entries)) | dict(_with_rows(raw, "status", self._rows))
        cache = NodeCache.model_validate({**raw, **parts})
        for name, part in (("spec", cache.spec), ("status", cache.status)):
            given = parts[name]["datasets"] if name in parts else ()
            read = (_compacted(row, one) for row, one in zip_longest(part.datasets, given))
            _set(part, "datasets", tuple(read))
        status = cache.status
        for one in (cache, cache.metadata, cache.spec, status, status.memory, status.hardware, *status.conditions):
            share_names(one)
        return cache

    def _source(self, raw: Any) -> Any:
        # Nodes are told the same of a Dataset, but for the one that lists.
        key = raw.get("uri") if raw.__class__ is dict else None
        if key.__class__ is not str:
            return REFUSED
        known = self._sources.get(key)
        if known is not None and known[0] == raw:
            return known[1]
        try:
            source = compacted(Source.model_validate(raw))
        except ValidationError:
            return REFUSED
        if len(self._sources) >= _MOST_SOURCES:
            self._sources.clear()
        self._sources[key] = (raw, source)
        return source


def _with_neighbours(raw: Raw) -> Raw:
    """Return it with the neighbours of its rows in them; where they make no sense the model says so."""
    spec = raw.get("spec")
    if not isinstance(spec, dict) or "neighbourhoods" not in spec:
        return raw
    with suppress(ValueError):
        return {**raw, "spec": spread_spec(spec)}
    return raw


def _with_rows(raw: Raw, part: str, reader: RowReader[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the part with those of its rows read that the reader takes; of others the model says what is wrong."""
    body = raw.get(part)
    if isinstance(body, dict) and isinstance(rows := body.get("datasets"), list):
        read = [(reader.read(row) or row) if isinstance(row, dict) else row for row in rows]
        yield part, body | {"datasets": read}


def _read(reader: RowReader[Any], raw: Any) -> Any:
    return (reader.read(raw) or REFUSED) if raw.__class__ is dict else REFUSED


def _compacted(row: Row, given: object) -> Row:
    """Return a row in its small form, which it has if it is as it was given to the model."""
    if row is given:
        return row
    if isinstance(row, NodeDataset):
        _set(row, "groups", compacted(row.groups))
    return compacted(row)

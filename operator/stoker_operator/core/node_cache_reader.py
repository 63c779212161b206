"""Reads NodeCaches so that what thousands of them say alike is in memory once: texts, and the sources of Datasets."""

import json
from collections.abc import Mapping
from sys import intern
from typing import Any, Final, cast

from pydantic import ValidationError

from stoker_api.dataset_source import Source
from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeCache
from stoker_operator.core.compact_rows import Row, compacted, share_names

_MOST_SOURCES = 10_000  # that are remembered; a cluster has as many as Datasets

Raw = Mapping[str, Any]


class NodeCacheReader:
    """The reader of all NodeCaches."""

    def __init__(self) -> None:
        self._sources: Final[dict[str, Source]] = {}

    def view(self, raw: Raw) -> NodeCache:
        """Read one as it came. Raises ValidationError."""
        parts = {
            part: body | {"datasets": [self._row(row) for row in body["datasets"]]}
            for part in ("spec", "status")
            if isinstance(body := raw.get(part), dict) and isinstance(body.get("datasets"), list)
        }
        cache = NodeCache.model_validate({**raw, **parts})
        for part in (cache.spec, cache.status):
            object.__setattr__(part, "datasets", tuple(map(_compacted, part.datasets)))
        status = cache.status
        for one in (cache, cache.metadata, cache.spec, status, status.memory, status.hardware, *status.conditions):
            share_names(one)
        return cache

    def _row(self, row: object) -> object:
        if not isinstance(row, dict):
            return row
        shared = {name: _shared(value) for name, value in row.items()}
        if isinstance(source := row.get("source"), dict):
            shared["source"] = self._source(source)
        return shared

    def _source(self, raw: Raw) -> Source | Raw:
        key = json.dumps(raw, sort_keys=True)
        known = self._sources.get(key)
        if known is not None:
            return known
        try:
            source = Source.model_validate(raw)
        except ValidationError:
            return raw  # whoever reads the whole object says where it is wrong
        if len(self._sources) >= _MOST_SOURCES:
            self._sources.clear()
        self._sources[key] = source
        return source


def _compacted(row: Row) -> Row:
    if isinstance(row, NodeDataset):
        object.__setattr__(row, "groups", compacted(row.groups))
    return compacted(row)


def _shared(value: object) -> object:
    # As json.loads makes them: thousands of values of one NodeCache, in one step of the event loop.
    kind = type(value)
    if kind is str:
        return intern(cast("str", value))
    if kind is dict:
        return {name: _shared(one) for name, one in cast("dict[str, object]", value).items()}
    if kind is list:
        return [intern(one) if type(one) is str else one for one in cast("list[object]", value)]
    return value

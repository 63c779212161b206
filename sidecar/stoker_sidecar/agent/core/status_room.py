"""Fits a node's status, or its answer, into a byte budget that namespaces share. Pure."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError

from stoker_api.meta import Model, stored_bytes
from stoker_api.node_caches.node_storage import MOST_MOUNTS, MountPhase, NodeMount
from stoker_api.rows import RowStruct
from stoker_sidecar.agent.core.workload_rows import chosen_fairly
from stoker_sidecar.wire.dataset_texts import fair_shares

_What = tuple[str, str, str, MountPhase]


def told_mounts(rows: Sequence[NodeMount], most: int = MOST_MOUNTS) -> tuple[NodeMount, ...]:
    """Choose ``most`` rows, taking each namespace's first rows first.

    Within a namespace, one row of each Dataset, version and phase comes first: the operator decides by these. A pod may
    have thousands of volumes of one Dataset.
    """
    if len(rows) <= most:
        return tuple(rows)
    by_turn = sorted(zip(turns(rows), rows, strict=True), key=lambda entry: entry[0])
    return chosen_fairly((row for _, row in by_turn), lambda row: row.pod_namespace, most)


def turns(rows: Iterable[NodeMount]) -> list[int]:
    """Return, for each row, how many rows before it have the same Dataset, version and phase."""
    seen: Counter[_What] = Counter()
    found = []
    for row in rows:
        what = (row.dataset_namespace, row.dataset, row.version, row.phase)
        found.append(seen[what])
        seen[what] += 1
    return found


S = TypeVar("S", bound=Model)
Owner = Callable[[Any], str]

# Bytes of a stored status. etcd takes 1.5 MiB an object, and the spec may have 700 kB too.
MOST_STATUS = 700_000
_NODES_SHARE = 0.25  # of the room, at most, for rows about the node itself
_NODES_ROWS = ("cache_folders", "origins", "order_plugins", "plugins", "tuning_profiles", "tuning")
# The namespace that owns a row.
_OWNERS: dict[str, Owner] = {
    "mounts": lambda row: str(row.pod_namespace),
    "datasets": lambda row: str(row.namespace),
    "workloads": lambda row: str(row.pod).partition("/")[0],
    "ended": lambda row: str(row.pod).partition("/")[0],
}
# Order within a namespace: one mount of each Dataset, version and phase first, since the operator decides by them.
_FIRST_MOUNTS, _RANKS = 0, {"datasets": 1, "mounts": 2, "workloads": 3, "ended": 4}
# Additional bytes in Go's JSON, which escapes three HTML characters and two Unicode line ends.
_ESCAPES = {b"<": 5, b">": 5, b"&": 5, b"\xe2\x80\xa8": 3, b"\xe2\x80\xa9": 3}


@dataclass(frozen=True, slots=True)
class _Item:
    """A row of the list ``field`` at ``index``. The lowest ``rank`` of an owner goes first. ``size`` in bytes."""

    field: str
    index: int
    rank: int
    row: Model | RowStruct
    size: int


def stored_size(model: Model | RowStruct) -> int:
    """Return the size of a model in the API server's database, in bytes."""
    try:
        text = model.model_dump_json(by_alias=True, exclude_none=True).encode()
    except PydanticSerializationError:  # half a character, which is escaped on the way
        text = json.dumps(model.wire()).encode()
    return stored_bytes(text)


def fitted(status: S, most: int = MOST_STATUS) -> S:
    """Return the status, or a node's answer, with as many rows as fit into ``most`` bytes.

    Nearly always it is returned unchanged. Otherwise, each namespace gets an equal part of the room, and the remaining
    namespaces share the unused room: no namespace displaces the rows of a smaller one. ``left_out`` counts the missing
    rows.
    """
    if stored_size(status) <= most:
        return status
    bare = _bare(status, most)
    room = most - stored_size(bare)
    items = list(_items(status))
    nodes = _first_that_fit([item for item in items if item.field in _NODES_ROWS], int(room * _NODES_SHARE))
    kept = nodes + _shared(items, room - sum(item.size for item in nodes))
    left_out = getattr(status, "left_out", 0) + len(items) - len(kept)
    return bare.model_copy(update=_lists(kept) | {"left_out": left_out})


def _bare(status: S, most: int) -> S:
    """Return the status without rows, and without disks if the rest would take more than half of the room."""
    fields = type(status).model_fields
    bare = status.model_copy(update={name: () for name in (*_OWNERS, *_NODES_ROWS) if name in fields})
    hardware = getattr(bare, "hardware", None)
    if hardware is not None and stored_size(bare) > most // 2:
        bare = bare.model_copy(update={"hardware": hardware.model_copy(update={"disks": ()})})
    return bare


def _items(status: Model) -> Iterable[_Item]:
    for rank, field in enumerate(_NODES_ROWS):
        for index, row in enumerate(getattr(status, field, ())):
            yield _item(field, index, rank, row)
    for field in _OWNERS:
        rows = getattr(status, field)
        ranks = [_RANKS[field]] * len(rows) if field != "mounts" else map(_mount_rank, turns(rows))
        for index, (row, rank) in enumerate(zip(rows, ranks, strict=True)):
            yield _item(field, index, rank, row)


def _mount_rank(turn: int) -> int:
    return _RANKS["mounts"] if turn else _FIRST_MOUNTS


def _item(field: str, index: int, rank: int, row: Model) -> _Item:
    return _Item(field, index, rank, row, stored_size(row) + 1)  # and a comma


def _shared(items: Iterable[_Item], room: int) -> list[_Item]:
    """Return the rows for which their namespaces have room."""
    by_owner: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        if item.field in _OWNERS:
            by_owner[_OWNERS[item.field](item.row)].append(item)
    shares = fair_shares({owner: _size(own) for owner, own in by_owner.items()}, room)
    return [item for owner, own in by_owner.items() for item in _first_that_fit(own, shares[owner])]


def _first_that_fit(items: Iterable[_Item], room: int) -> list[_Item]:
    kept = []
    for item in sorted(items, key=lambda item: item.rank):
        if item.size <= room:
            room -= item.size
            kept.append(item)
    return kept


def _size(items: Iterable[_Item]) -> int:
    return sum(item.size for item in items)


def _lists(items: Iterable[_Item]) -> dict[str, tuple[Model | RowStruct, ...]]:
    """Return the rows as lists, each in its order."""
    lists: dict[str, list[Model | RowStruct]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.index):
        lists[item.field].append(item.row)
    return {field: tuple(rows) for field, rows in lists.items()}

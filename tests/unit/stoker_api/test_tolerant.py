"""Parsing of objects that another release wrote."""

from typing import Any

import pytest
from pydantic import ValidationError

from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_api.tolerant import read_tolerantly
from tests.support.cases import cases

ROW = {"volumeId": "v", "datasetNamespace": "n", "dataset": "d", "mode": "native", "phase": "Mounted"}


@cases(
    "change, left, modes",
    ({}, [], ["native"]),
    ({"later": {"x": 1}}, [], ["native"]),
    ({"mode": "erofs"}, [("mounts", 0, "mode")], [None]),
    ({"dataset": 7}, [("mounts", 0, "dataset"), ("mounts", 0)], []),
)
def test_an_unknown_value_gets_its_default_or_costs_its_row(
    change: dict[str, Any], left: list[Any], modes: list[Any]
) -> None:
    status, left_out = read_tolerantly(NodeCacheStatus, {"mounts": [ROW | change], "address": "a"})
    assert ([row.mode for row in status.mounts], list(left_out), status.address) == (modes, left, "a")


def test_several_unreadable_rows_leave_the_others() -> None:
    rows: list[Any] = [5, ROW, {**ROW, "dataset": None}, ROW | {"volumeId": "last"}, []]
    status, _ = read_tolerantly(NodeCacheStatus, {"mounts": rows})
    assert [row.volume_id for row in status.mounts] == ["v", "last"]


@pytest.mark.parametrize("raw", [[], 5, "text", None])
def test_what_is_no_object_is_refused(raw: Any) -> None:
    with pytest.raises(ValidationError):
        read_tolerantly(NodeCacheStatus, raw)


def test_what_must_be_readable_is_refused() -> None:
    with pytest.raises(ValidationError):
        read_tolerantly(NodeCacheStatus, {"mounts": 5}, lambda place: None)

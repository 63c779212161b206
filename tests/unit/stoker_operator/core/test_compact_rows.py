"""Rows are kept small, and say what they said."""

import sys
from typing import Any

import pytest
from pydantic import BaseModel

from stoker_api.node_dataset import NodeDataset
from stoker_api.nodecache import NodeDatasetStatus
from stoker_operator.core.compact_rows import compacted

NAMED: dict[str, Any] = {"namespace": "vision", "name": "digits", "uid": "u"}
ROWS = [
    NodeDataset.model_validate(NAMED | {"source": {"uri": "s3://bucket/"}, "peers": ["10.0.0.1:8081"], "eager": True}),
    NodeDatasetStatus.model_validate(NAMED | {"phase": "Warm", "version": "d" * 64, "warmBytes": 5}),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_it_says_the_same(row: BaseModel) -> None:
    small = compacted(row)
    assert small == row
    assert (small.model_dump(), small.model_fields_set) == (row.model_dump(), row.model_fields_set)
    assert small.model_dump(exclude_unset=True) == row.model_dump(exclude_unset=True)


def test_a_copy_of_it_may_differ_as_any_copy() -> None:
    assert compacted(ROWS[1]).model_copy(update={"files": 7}) == ROWS[1].model_copy(update={"files": 7})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_its_fields_take_less_than_half_of_the_memory(row: BaseModel) -> None:
    assert sys.getsizeof(vars(compacted(row))) < sys.getsizeof(vars(row)) / 2


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_rows_that_give_the_same_fields_have_the_names_of_these_once(row: BaseModel) -> None:
    again = type(row).model_validate(row.model_dump(exclude_unset=True))
    assert compacted(again).model_fields_set is compacted(row).model_fields_set

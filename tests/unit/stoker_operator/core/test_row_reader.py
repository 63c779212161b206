"""What is read without the model is read as the model reads it, and whatever else is left to the model."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError, field_validator

from stoker_api.node_dataset import NeighbourGroups, NodeDataset
from stoker_api.nodecache import NodeDatasetStatus
from stoker_operator.core.compact_rows import compacted
from stoker_operator.core.row_reader import RowReader

KINDS: tuple[type[BaseModel], ...] = (NodeDataset, NodeDatasetStatus, NeighbourGroups)
ALIKE: dict[type[BaseModel], tuple[str, ...]] = {NodeDataset: ("peers", "groups"), NeighbourGroups: ("links",)}
READERS: dict[type[BaseModel], RowReader[Any]] = {kind: RowReader(kind, alike=ALIKE.get(kind, ())) for kind in KINDS}
NAMED = {"namespace": "vision", "name": "digits", "uid": "u"}
PLAIN: dict[type[BaseModel], dict[str, Any]] = {
    NodeDataset: NAMED | {"source": {"uri": "s3://bucket/"}, "peers": ["10.0.0.1:8081"], "position": 3, "eager": True},
    NodeDatasetStatus: NAMED | {"phase": "Warm", "version": "d" * 64, "warmBytes": 5, "mode": "native"},
    NeighbourGroups: {"links": ["10.0.0.1:8081"], "distances": [0, 2], "first": 7, "width": 9},
}
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-1, 20)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["Warm", "native", "Auto", "\ud800", "é"]),
    lambda inner: st.lists(inner, max_size=25) | st.dictionaries(st.sampled_from(["uri", "version", "id"]), inner),
    max_leaves=30,
)


@st.composite
def rows(draw: st.DrawFn) -> tuple[type[BaseModel], dict[str, Any]]:
    """Rows that are right but for some fields, which are anything; in any order, and with names of no field."""
    kind = draw(st.sampled_from(KINDS))
    aliases = [str(info.alias) for info in kind.model_fields.values()]
    others = draw(st.dictionaries(st.sampled_from([*aliases, *kind.model_fields, "stranger"]), VALUES, max_size=4))
    left_out = draw(st.sets(st.sampled_from(aliases), max_size=2))
    whole = {name: value for name, value in (PLAIN[kind] | others).items() if name not in left_out}
    return kind, dict(draw(st.permutations(list(whole.items()))))


@given(rows())
def test_it_reads_what_the_model_reads_and_nothing_else(found: tuple[type[BaseModel], dict[str, Any]]) -> None:
    kind, raw = found
    read = READERS[kind].read(raw)
    if read is not None:
        expected = kind.model_validate(raw)
        assert (read, read.model_fields_set) == (expected, expected.model_fields_set)
        assert read.model_dump() == expected.model_dump()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_row_as_nodes_and_the_operator_write_it_is_read(kind: type[BaseModel]) -> None:
    assert READERS[kind].read(PLAIN[kind]) == kind.model_validate(PLAIN[kind])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_rows_are_as_small_as_those_that_are_made_so(kind: type[BaseModel]) -> None:
    read, small = READERS[kind].read(PLAIN[kind]), compacted(kind.model_validate(PLAIN[kind]))
    assert read is not None
    assert vars(read).__sizeof__() <= vars(small).__sizeof__()


@pytest.mark.parametrize("wrong", [{"position": 16}, {"position": -1}, {"peers": ["a"] * 16}, {"eager": 1}, {"uid": 5}])
def test_what_a_limit_forbids_is_left_to_the_model(wrong: dict[str, Any]) -> None:
    assert READERS[NodeDataset].read(PLAIN[NodeDataset] | wrong) is None


def test_a_row_without_a_field_that_it_needs_is_left_to_the_model() -> None:
    assert READERS[NodeDatasetStatus].read({"namespace": "vision", "name": "digits"}) is None


def test_a_model_with_checks_of_its_own_has_no_reader() -> None:
    class Checked(BaseModel):
        """Checks a field in a way that no annotation says."""

        name: str

        @field_validator("name")
        @classmethod
        def check(cls, name: str) -> str:
            """Take none."""
            raise ValueError(name)

    with pytest.raises(TypeError, match="checks more than its fields"):
        RowReader(Checked)
    with pytest.raises(ValidationError):
        Checked.model_validate({"name": "a"})

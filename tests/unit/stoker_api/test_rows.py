"""Row structs parse, reject and serialize like pydantic models with the same fields."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stoker_api.datasets.dataset_source import DatasetSource, Source
from stoker_api.node_caches.node_dataset import NodeDataset, PeerLinks
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.nodecache import NodeCacheSpec
from stoker_api.rows import RowStruct, model_of

KINDS: tuple[type[RowStruct], ...] = (NodeDataset, NodeDatasetStatus, PeerLinks)
NAMED = {"namespace": "vision", "name": "digits", "uid": "u"}
PLAIN: dict[type[RowStruct], dict[str, Any]] = {
    NodeDataset: NAMED | {"source": {"uri": "s3://bucket/"}, "peers": ["10.0.0.1:8081"], "position": 3, "eager": True},
    NodeDatasetStatus: NAMED | {"phase": "Warm", "version": "d" * 64, "warmBytes": 5, "mode": "native"},
    PeerLinks: {"links": ["10.0.0.1:8081"], "distances": [0, 2], "first": 7, "width": 9},
}
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-1, 20)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.sampled_from(["Warm", "native", "Auto", "é", "x" * 2000]),
    lambda inner: st.lists(inner, max_size=25) | st.dictionaries(st.sampled_from(["uri", "version", "id"]), inner),
    max_leaves=30,
)


@st.composite
def rows(draw: st.DrawFn) -> tuple[type[RowStruct], dict[str, Any]]:
    """Draw rows with up to four arbitrary values, in any order, including unknown fields."""
    kind = draw(st.sampled_from(KINDS))
    aliases = list(kind.__struct_encode_fields__)
    others = draw(st.dictionaries(st.sampled_from([*aliases, *kind.__struct_fields__, "stranger"]), VALUES, max_size=4))
    left_out = draw(st.sets(st.sampled_from(aliases), max_size=2))
    whole = {name: value for name, value in (PLAIN[kind] | others).items() if name not in left_out}
    return kind, dict(draw(st.permutations(list(whole.items()))))


def outcome(kind: type[Any], raw: object) -> object:
    """Return the parsed value, or the reason why the type rejects it."""
    try:
        return kind.model_validate(raw).model_dump()
    except ValidationError as error:
        return error.errors(include_url=False)


@settings(max_examples=60)
@given(rows())
def test_a_row_reads_or_refuses_the_same_as_the_model(found: tuple[type[RowStruct], dict[str, Any]]) -> None:
    kind, raw = found
    assert outcome(kind, raw) == outcome(model_of(kind), raw)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("options", [{}, {"exclude_defaults": True}, {"by_alias": True, "mode": "json"}], ids=str)
def test_a_row_is_written_as_the_model(kind: type[RowStruct], options: dict[str, Any]) -> None:
    expected = model_of(kind).model_validate(PLAIN[kind]).model_dump(**options)
    assert kind.model_validate(PLAIN[kind]).model_dump(**options) == expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_names_in_json_are_those_of_the_model(kind: type[RowStruct]) -> None:
    fields = model_of(kind).model_fields.values()
    assert kind.__struct_encode_fields__ == tuple(str(field.alias) for field in fields)


def test_a_refusal_in_a_list_names_the_place_of_the_value() -> None:
    row = PLAIN[NodeDataset] | {"groups": {"distances": [0, 7]}}
    with pytest.raises(ValidationError) as refused:
        NodeCacheSpec.model_validate({"datasets": [PLAIN[NodeDataset], row]})
    assert [error["loc"] for error in refused.value.errors()] == [("datasets", 1, "groups", "distances", 1)]


def test_a_row_keeps_the_plain_form_of_a_source() -> None:
    source = DatasetSource(uri="s3://bucket/", include=("*.jpg",))
    row = NodeDataset(namespace="vision", name="digits", uid="u", source=source)
    assert (type(row.source), row.source.include) == (Source, ("*.jpg",))


@pytest.mark.parametrize("read", [True, False])
def test_a_refusal_of_mounts_is_cut(read: bool) -> None:
    row = NodeDataset.model_validate(PLAIN[NodeDataset])
    text = "x" * 2000
    cut = (
        NodeDataset.model_validate(row.wire() | {"refused": text}) if read else row.model_copy(update={"refused": text})
    )
    assert len(cut.refused) == 1024

"""YAML and JSON parsed with places, into plain data only."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stoker_tuning.documents.errors import DocumentError
from stoker_tuning.documents.tree import MOST_BYTES, MOST_DEPTH, MOST_NODES, read_tree
from tests.support.cases import cases

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(-1e9, 1e9) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_json_is_read_as_json(value: Any, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps([value], indent=indent, ensure_ascii=ascii_only)
    if "\x85" not in text and "\u2028" not in text and "\u2029" not in text and text.isprintable():
        assert read_tree(text).value == [value]


@given(JSON_VALUES)
def test_yaml_is_read_as_yaml(value: Any) -> None:
    assert read_tree(yaml.safe_dump({"a": value})).value == {"a": value}


@cases(
    "text, value",
    ("on", "on"),
    ("yes", "yes"),
    ("0x10", "0x10"),
    ("1_000", "1_000"),
    ("12:30", "12:30"),
    ("2026-01-01", "2026-01-01"),
    ("'1'", "1"),
    ("1e3", 1000.0),
    (".5", 0.5),
    ("~", None),
    ("TRUE", "TRUE"),
    ('{"a":\t"\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}),
    ("9" * 100, "9" * 100),
    ("\ufeffa: 1", {"a": 1}),
)
def test_a_word_is_what_it_looks_like(text: str, value: object) -> None:
    found = read_tree(text.encode()).value
    assert found == value
    assert type(found) is type(value)


@cases(
    "text, says",
    (b"", "line 1, column 1: is empty"),
    (b"a: &x 1\nb: *x", "line 1, column 4: anchors"),
    (b"a: !!python/object:os.system 1", "line 1, column 4: tags"),
    (b"a: 1\nb: 2\na: 3", 'line 3, column 1: "a" is here twice'),
    (b'{"a": 1, "a": 2}', 'line 1, column 10: "a" is here twice'),
    (b"a: 1\n---\nb: 1", "line 2, column 1: is a second document"),
    (b"a: [1", "is not YAML or JSON"),
    (b"a: b: c", "line 1, column 5: is not YAML or JSON"),
    (b"a: 1\n\xff", "line 2, column 1: is not UTF-8"),
    (b"? [a]\n: 1", "a key is a word"),
    (b"a: 1e999", '"1e999" is too large'),
    (b'{"a": "\\ud83d"}', "is not YAML or JSON"),
    (b"a: \x00", "is not YAML or JSON"),
    (b"[" * (MOST_DEPTH + 1), f"more than {MOST_DEPTH} levels deep"),
    (b"[" * 100_000, "levels deep"),
    (b"- a\n" * (MOST_NODES + 1), f"more than {MOST_NODES} values"),
    (b" " * (MOST_BYTES + 1), "a document has 1048576 at most"),
)
def test_what_is_not_plain_data_is_refused_with_its_place(text: bytes, says: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_tree(text)
    assert says in str(caught.value)


def test_every_value_has_its_place() -> None:
    places = read_tree("a:\n  - b: 1\n    c: [x, yy, z]\n").places
    assert places[("a", 0, "c")] == (3, 5)
    assert places[("a", 0, "c", 1)] == (3, 12)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_place(source: bytes) -> None:
    try:
        read_tree(source)
    except DocumentError as error:
        problem = error.problems[0]
        where = (problem.line, problem.column)
    else:
        where = (1, 1)
    assert min(where) >= 1

"""Indexes of samples are streamed. Other shapes are rejected before they are built."""

import json
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_orders.sample_index import NoSamplesError, listed_names, record_spans, shard_counts

MOST = 8 * 1024**2  # the reader's limit in bytes


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 10_000_000)), st.booleans())
def test_an_index_in_json_is_read_as_json_is(counts: dict[str, int], ascii_only: bool) -> None:
    content = json.dumps(counts, ensure_ascii=ascii_only, indent=1).encode()
    named = {name.encode(): count for name, count in counts.items()}
    assert shard_counts("sizes.json", content, named) == named


@given(st.text(alphabet='{}[]":,\\ 1a', max_size=12))
def test_what_is_no_json_object_of_counts_is_refused(text: str) -> None:
    try:
        found = json.loads("{" + text)
        is_counts = all(type(count) is int and 0 <= count <= 10_000_000 for count in found.values())
    except ValueError:
        is_counts = False
    try:
        shard_counts("sizes.json", b"{" + text.encode(), set())
    except NoSamplesError:
        assert not is_counts
    else:
        assert is_counts


BOMBS = {
    "lists": b'{"a":[' + b"[],"[:3] * (MOST // 3 - 4) + b"0]}",
    "objects": '{"😀":['.encode() + b"{}," * (MOST // 3 - 8) + b"0]}",
    "depth": b'{"a":' + b"[" * (MOST - 6),
    "one long name": b'{"' + b"\\a" * (MOST // 2 - 4),
    "blanks": b"{" + b" " * (MOST - 1),
    "digits": b'{"a":' + b"1" * (MOST - 6),
    "one long line": b"a " * (MOST // 2),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_the_largest_index_of_another_shape_takes_no_time_and_little_memory(kind: str) -> None:
    content = BOMBS[kind]
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(NoSamplesError, match=r"."):
        shard_counts("sizes.json", content, set())
    took, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert took < 3
    assert peak < 6 * MOST  # the decoded text, at most 4 bytes per character


@pytest.mark.parametrize("read", [lambda content: list(listed_names("l", content)), lambda c: record_spans("i", c, 9)])
def test_a_line_that_does_not_end_is_refused(read: object) -> None:
    assert callable(read)
    with pytest.raises(NoSamplesError, match=r"line 1 of '.' is longer than 8192 bytes"):
        read(b"1" * 10_000)

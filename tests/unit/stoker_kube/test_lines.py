"""Splitting a byte stream into lines."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stoker_kube.client import LineSplitter

LINES = st.lists(st.binary(min_size=1).map(lambda line: b"{" + line.replace(b"\n", b"") + b"}"))


@given(LINES, st.lists(st.integers(0, 200)))
def test_lines_do_not_depend_on_chunk_boundaries(lines: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    splitter = LineSplitter()
    found = [line for start, end in pairwise(edges) for line in splitter.feed(whole[start:end])]
    assert found == lines


def test_a_line_without_its_end_waits() -> None:
    splitter = LineSplitter()
    assert list(splitter.feed(b'{"a":')) == []
    assert list(splitter.feed(b'1}\n{"b"')) == [b'{"a":1}']

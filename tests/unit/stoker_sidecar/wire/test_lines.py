"""Lines of JSON over a stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.wire.lines import LineBuffer, decode_object, encode


@given(st.lists(st.binary().map(lambda data: data.replace(b"\n", b""))), st.lists(st.integers(0, 50)))
def test_lines_are_the_same_however_their_bytes_arrive(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    buffer, found, start = LineBuffer(), [], 0
    for cut in [*sorted(cuts), len(stream)]:
        found += buffer.feed(stream[start:cut])
        start = max(start, cut)
    assert found == lines


def test_what_has_not_ended_is_counted() -> None:
    buffer = LineBuffer()
    assert (buffer.feed(b"one\ntwo"), buffer.waiting) == ([b"one"], 3)


def test_an_object_comes_back_as_it_was() -> None:
    assert decode_object(encode({"text": "line\nend"})) == {"text": "line\nend"}


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\xff"])
def test_what_is_no_object_is_named_in_the_error(line: bytes) -> None:
    with pytest.raises(ValueError, match="a line is not"):
        decode_object(line)

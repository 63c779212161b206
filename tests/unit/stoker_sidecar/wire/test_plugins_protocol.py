"""Messages between the agent and the asker process, and messages that the agent rejects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.wire.plugins_protocol import (
    MOST_LINE,
    ToldAnswer,
    decode_question,
    decode_told,
    encode_parts,
    encode_question,
    encode_told,
)
from tests.support.cases import cases

NAMES = ("odd", "pytorch")


def test_a_question_arrives_as_it_was_asked() -> None:
    assert decode_question(encode_question(NAMES, {"kind": "order"})) == (list(NAMES), {"kind": "order"})


@cases("line", b"[]", b"{}", b'{"plugins": "odd", "question": {}}', b'{"plugins": [], "question": 1}')
def test_an_invalid_question_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_question(line)


@given(st.binary(max_size=100), st.text(max_size=20))
def test_an_answer_arrives_as_it_was_told(said: bytes, refused: str) -> None:
    told = decode_told(encode_told(ToldAnswer("odd", "odd 1", said, refused)), NAMES)
    assert (told.name, told.origin, told.said, len(told.refused)) == ("odd", "odd 1", said, len(refused))


def test_words_of_others_are_short_and_move_no_cursor() -> None:
    told = decode_told(encode_told(ToldAnswer("odd", "\x1b[2J" * 100, b"", "\n" * 1000)), NAMES)
    assert (len(told.origin), told.refused) == (100, "?" * 300)


@cases(
    "line",
    b"{}",
    b"no",
    b"[" * 100_000,
    b'{"name": "jax", "origin": "", "said": "", "refused": ""}',
    b'{"name": ["odd"], "origin": "", "said": "", "refused": ""}',
    b'{"name": "odd", "origin": 1, "said": "", "refused": ""}',
    b'{"name": "odd", "origin": "", "said": "%", "refused": ""}',
)
def test_what_no_asker_of_ours_says_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_told(line, NAMES)


@given(st.binary(max_size=300))
def test_no_line_is_an_exception_of_another_kind(line: bytes) -> None:
    try:
        decode_told(line, NAMES)
    except ValueError:
        return


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_an_order_arrives_in_parts_of_bounded_lines_and_ends(size: int) -> None:
    said = bytes(range(256)) * (size // 256) + bytes(size % 256)
    parts = list(encode_parts(ToldAnswer("odd", "odd 1", said)))
    told = [decode_told(line, ["odd"]) for line in parts]
    assert b"".join(one.said for one in told) == said
    assert max(map(len, parts)) <= MOST_LINE
    assert [bool(one.said) for one in told] == [True] * (len(told) - 1) + [False]

"""Parsing of a server's responses, for any sizes of their pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.store.http.http_connection import HttpProtocolError, ResponseReader
from tests.support.cases import cases

BODY = bytes(range(256)) * 3
SIZED = (
    f'HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\nETag: "e"\r\nX-Odd: caf\u00e9\r\n\r\n'.encode("latin-1") + BODY
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n" + BODY[:256] + b"\r\n200\r\n" + BODY[256:]
CHUNKED += b"\r\n0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nETag: early\r\n\r\n"


def _feed(reader: ResponseReader, data: bytes, cuts: list[int]) -> bytes:
    places = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    taken = b""
    for begin, end in pairwise(places):
        if begin < end:
            reader.feed(data[begin:end])
        taken += b"".join(reader.take())
    return taken


@given(st.sampled_from([SIZED, CHUNKED, INTERIM + SIZED]), st.lists(st.integers(0, 10_000), max_size=20))
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(answer: bytes, cuts: list[int]) -> None:
    reader = ResponseReader()
    assert _feed(reader, answer, cuts) == BODY
    assert (reader.status, reader.complete, reader.reusable) == (200, True, True)


@given(st.lists(st.sampled_from([SIZED, CHUNKED, INTERIM + SIZED]), max_size=4), st.lists(st.integers(0), max_size=5))
def test_answers_of_one_connection_leave_each_other_alone(answers: list[bytes], cuts: list[int]) -> None:
    reader = ResponseReader()
    for answer in answers:
        reader.begin()
        assert _feed(reader, answer, cuts) == BODY
        assert ("etag" in reader.headers) == (b'ETag: "e"' in answer)


def test_headers_are_told_as_they_came_by_lower_case_names() -> None:
    reader = ResponseReader()
    reader.feed(SIZED)
    assert reader.headers == {"content-length": str(len(BODY)), "etag": '"e"', "x-odd": "caf\u00e9"}
    assert reader.length == len(BODY)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nabc")
    assert not reader.complete
    reader.end()
    assert (reader.take(), reader.length, reader.complete, reader.reusable) == ([b"abc"], None, True, False)


@pytest.mark.parametrize("whole", [SIZED, CHUNKED])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.99])
def test_an_answer_that_was_cut_off_is_none(whole: bytes, share: float) -> None:
    reader = ResponseReader()
    if part := whole[: int(len(whole) * share)]:
        reader.feed(part)
    with pytest.raises(HttpProtocolError, match="ended before"):
        reader.end()


@cases(
    "data",
    another_protocol=b"SSH-2.0-OpenSSH_9.2\r\n",
    two_lengths=b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    no_number=b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    upgrade=b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    endless_head=b"HTTP/1.1 200 OK\r\n" + b"X-Long: 1234567890\r\n" * 4000,
    two_answers=SIZED + SIZED,
    more_than_its_length=SIZED + b"more",
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(HttpProtocolError):
        ResponseReader().feed(data)


def test_bytes_after_the_answer_are_refused() -> None:
    reader = ResponseReader()
    reader.feed(SIZED)
    with pytest.raises(HttpProtocolError, match="unrequested"):
        reader.feed(b"H")


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_a_connection_that_the_server_ends_is_not_used_again(head: bytes) -> None:
    reader = ResponseReader()
    reader.feed(head + b"Content-Length: 2\r\n\r\nab")
    assert (reader.complete, reader.reusable) == (True, False)


@pytest.mark.parametrize("length", [0, 2])
def test_a_response_to_head_is_complete_without_its_body(length: int) -> None:
    reader = ResponseReader()
    reader.begin(head_only=True)
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
    assert (reader.status, reader.complete, reader.reusable) == (200, True, True)
    reader.begin()
    assert _feed(reader, SIZED, []) == BODY


def test_a_body_after_a_response_to_head_is_refused() -> None:
    reader = ResponseReader()
    reader.begin(head_only=True)
    with pytest.raises(HttpProtocolError, match="on_body"):
        reader.feed(SIZED)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_a_connection_that_ends_with_a_response_to_head_is_not_used_again(head: bytes) -> None:
    reader = ResponseReader()
    reader.begin(head_only=True)
    reader.feed(head + b"Content-Length: 2\r\n\r\n")
    assert (reader.complete, reader.reusable) == (True, False)

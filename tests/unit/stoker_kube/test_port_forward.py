"""Parsing the frames of a forwarded port into an HTTP answer."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_kube.access.port_forward import ForwardedAnswer
from stoker_kube.errors import KubeError
from tests.support.cases import cases

PORT = (8083).to_bytes(2, "little")
BODY = b'{"node": "n1"}'
HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)


def fed(*frames: bytes, most: int = 1000) -> ForwardedAnswer:
    answer = ForwardedAnswer(most)
    for frame in frames:
        answer.feed(frame)
    return answer


@given(st.lists(st.integers(0, len(HEAD + BODY)), max_size=6))
def test_the_answer_does_not_depend_on_frame_boundaries(cuts: list[int]) -> None:
    whole, at = HEAD + BODY, [0, *sorted(cuts), len(HEAD + BODY)]
    parts = [whole[start:end] for start, end in pairwise(at)]
    answer = fed(b"\0" + PORT, b"\1" + PORT, *(b"\0" + part for part in parts))
    assert (answer.done, answer.status, answer.body()) == (True, 200, BODY)


def test_without_a_length_it_ends_with_the_connection() -> None:
    answer = fed(b"\0" + PORT, b"\0HTTP/1.0 404 Not Found\r\n\r\nno", b"\0 such page")
    assert (answer.done, answer.status, answer.body()) == (False, 404, b"no such page")


@cases(
    "frames, sentence",
    ((b"\1" + PORT, b"\1connection refused"), "connection refused"),
    ((b"\7x",), "unknown channel"),
    ((b"",), "unknown channel"),
    ((b"\0" + PORT, b"\0SSH-2.0-OpenSSH\r\n\r\n"), "does not speak HTTP"),
    ((b"\0" + PORT, b"\0HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1001), "more than 1000 bytes"),
    ((b"\0" + PORT, b"\0" + b"x" * 70_000), "more than 1000 bytes"),
)
def test_an_invalid_answer_is_an_error(frames: tuple[bytes, ...], sentence: str) -> None:
    with pytest.raises(KubeError, match=sentence):
        fed(*frames)


@pytest.mark.parametrize("frame", [b"\0" + PORT, b"\0" + PORT + HEAD + BODY[:-1]])
def test_an_incomplete_answer_is_an_error(frame: bytes) -> None:
    with pytest.raises(KubeError, match="ended before"):
        fed(frame).body()

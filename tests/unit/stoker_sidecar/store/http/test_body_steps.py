"""A large body is passed on in steps, for any sizes of its pieces."""

from hypothesis import given
from hypothesis import strategies as st

from stoker_sidecar.store.base import SMALL
from stoker_sidecar.store.http.http_connection import BodySteps

_LEAST = 64 * 1024
_LENGTHS = st.integers(1, 3 * SMALL)


def _pour(length: int, first: int, pieces: list[int]) -> list[bytes]:
    """Pass on a body: ``first`` bytes before the buffer, then pieces of these sizes in turn. Return the steps."""
    content = (bytes(range(251)) * (length // 251 + 1))[:length]
    steps: list[bytes] = []
    body = BodySteps(length, lambda data: steps.append(bytes(data)))
    body.add(content[: min(first, length)])
    while not body.complete:
        space = body.space()
        count = min(len(space), pieces[len(steps) % len(pieces)])
        space[:count] = content[body.received : body.received + count]
        body.filled(count)
    assert b"".join(steps) == content
    return steps


@given(_LENGTHS, st.integers(0, SMALL), st.lists(st.integers(1000, SMALL), min_size=1, max_size=5))
def test_a_body_comes_whole_and_in_few_steps(length: int, first: int, pieces: list[int]) -> None:
    steps = _pour(length, first, pieces)[1:]
    assert len([step for step in steps if len(step) < _LEAST]) <= 2  # the end of the first bytes, and of the body


@given(st.integers(SMALL, 3 * SMALL), st.integers(0, SMALL), st.lists(st.integers(1000, SMALL), min_size=1))
def test_the_first_bytes_end_a_step(length: int, first: int, pieces: list[int]) -> None:
    ends, sent = set(), 0
    for step in _pour(length, first, pieces):
        sent += len(step)
        ends.add(sent)
    assert SMALL in ends

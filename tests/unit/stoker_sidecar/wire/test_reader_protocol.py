"""A compromised reader process cannot exceed the limits of its query."""

import pytest

from stoker_orders.sampling_plan import SampleLayout
from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.reader_protocol import (
    KindsQuestion,
    LayoutQuestion,
    MapQuestion,
    Question,
    SampleFilesText,
    decode_answer,
    decode_question,
    encode,
)
from tests.support.cases import cases

MAP = MapQuestion("/cache/v", 8, SampleFilesText(SampleLayout.SHARDS, "*.tar", 1, 0, 0, ""), 100)
LAYOUT = LayoutQuestion("/cache/v", 8, by_chunk=True)
KINDS = KindsQuestion("/cache/v", 8, ("a.pt", "b.pt"))


@pytest.mark.parametrize("question", [MAP, LAYOUT, KINDS])
def test_a_question_arrives_as_it_was_sent(question: Question) -> None:
    assert decode_question(encode(question)) == question


@cases(
    "question, line",
    (MAP, b'{"answer":"kinds","kinds":[]}'),
    (MAP, b'{"answer":"samples","shapes":[["I",1000000000]],"kind":"files","numbers":[0,0]}'),
    (MAP, b'{"answer":"samples","shapes":[["I",-1]],"kind":"files","numbers":[]}'),
    (MAP, b'{"answer":"samples","shapes":[["B",1]],"kind":"files","numbers":[]}'),
    (MAP, b'{"answer":"samples","kind":"files","numbers":[1,2,3,4,5]}'),
    (MAP, b'{"answer":"refused","shapes":[["I",1]],"message":"no"}'),
    (MAP, b'{"answer":"refused","message":"%s"}' % (b"x" * 501)),
    (LAYOUT, b'{"answer":"samples","kind":"files","numbers":[0,1]}'),
    (LAYOUT, b'{"answer":"layout","shapes":[["Q",70000]]}'),
    (LAYOUT, b'{"answer":"layout","runs":[%s]}' % b",".join([b'[0,"g","train","name",1,1,1]'] * 4097)),
    (LAYOUT, b'{"answer":"layout","models":[[1,"%s","weights",1]]}' % (b"x" * 4097)),
    (KINDS, b'{"answer":"kinds","kinds":[null]}'),
    (KINDS, b'{"answer":"kinds","kinds":["magic",null]}'),
    (KINDS, b"[" * 100_000),
    (KINDS, b"\xff"),
)
def test_an_answer_beyond_the_bounds_of_its_question_is_refused(question: Question, line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_answer(line, question)

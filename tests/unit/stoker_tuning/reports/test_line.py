"""A pod's line: its content and limits. Any other bytes are rejected without side effects."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker_tuning.reports.line import MOST_BYTES, ReportLine, ReportRefusedError, parse_line
from stoker_tuning.vocabulary import ModelFileKind, Split, TrainingPhase
from tests.support.cases import cases

WHOLE = {
    "v": 1,
    "phase": "Training",
    "split": "train",
    "epoch": 3,
    "epochs": 90,
    "step": 1200,
    "batch": 40,
    "batch_size": 256,
    "items": 512,
    "loss": 0.71,
    "learning_rate": 0.1,
    "wait_seconds": 0.2,
    "compute_seconds": 1.8,
    "saved": "/ckpt/3.pt",
    "loaded": "/ckpt/2.pt",
    "kind": "Checkpoint",
    "rank": 1,
    "world_size": 8,
    "framework": "pytorch",
}


def line(**fields: Any) -> ReportLine:
    return parse_line(json.dumps(fields).encode())


def refusal(raw: bytes) -> str:
    with pytest.raises(ReportRefusedError) as refused:
        parse_line(raw)
    return str(refused.value)


def test_a_line_says_all_that_the_protocol_has() -> None:
    said = line(**WHOLE)
    assert (said.phase, said.split, said.kind) == (TrainingPhase.TRAINING, Split.TRAIN, ModelFileKind.CHECKPOINT)
    assert (said.epoch, said.epochs, said.step, said.batch, said.items, said.batch_size) == (3, 90, 1200, 40, 512, 256)
    assert (said.loss, said.learning_rate, said.wait_seconds, said.compute_seconds) == (0.71, 0.1, 0.2, 1.8)
    assert (said.saved, said.loaded, said.rank, said.world_size) == ("/ckpt/3.pt", "/ckpt/2.pt", 1, 8)


def test_a_newline_ends_it_and_the_version_may_be_left_out() -> None:
    assert parse_line(b'{"epoch": 1}\n').epoch == 1


@cases(
    "fields, name, value",
    a_word_however_it_is_capitalised=({"phase": "VALIDATION"}, "phase", TrainingPhase.VALIDATION),
    a_whole_number_as_a_float=({"epoch": 2.0}, "epoch", 2),
    nothing_of_null=({"epoch": 1, "loss": None}, "loss", None),
)
def test_a_field_says(fields: dict[str, Any], name: str, value: object) -> None:
    assert getattr(line(**fields), name) == value


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_loss_that_is_no_number_is_news(text: str) -> None:
    said = parse_line(f'{{"loss": {text}}}'.encode())
    assert said.loss is not None
    assert not math.isfinite(said.loss)


def test_unknown_fields_are_left_out_and_named_with_a_suggestion() -> None:
    assert line(epoch=1, epcohs=2).unknown == ("'epcohs' (did you mean 'epochs'?)",)


@cases(
    "fields, words",
    ({"v": 2, "epoch": 1}, "speaks version 1"),
    ({"v": True, "epoch": 1}, "speaks version 1"),
    ({"epoch": -1}, "whole number from 0"),
    ({"epoch": 1.5}, "whole number"),
    ({"epoch": True}, "whole number"),
    ({"epoch": "1"}, "whole number"),
    ({"batch_size": 0}, "from 1"),
    ({"learning_rate": math.inf}, "finite"),
    ({"loss": "low"}, "a number"),
    ({"loss": 1e31}, "from -1e"),
    ({"wait_seconds": 1e6}, "from 0 to 86400"),
    ({"phase": "Resting"}, "one of Unknown, Initialization"),
    ({"phase": ["Training"]}, "it must be one of"),
    ({"saved": "a\x00b"}, "printable"),
    ({"saved": "x" * 513}, "1 to 512"),
    ({"rank": 8, "world_size": 8}, "ranks begin at 0"),
    ({}, "says nothing"),
    ({"unknown": 1}, "says nothing"),
)
def test_what_is_wrong_is_refused_in_a_sentence(fields: dict[str, Any], words: str) -> None:
    assert words in refusal(json.dumps(fields).encode())


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"epoch=1", b'{"epoch": 1}{"epoch": 2}', b"[" * MOST_BYTES])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    assert refusal(raw).startswith("a line is")


def test_a_line_without_measure_is_refused() -> None:
    assert f"at most {MOST_BYTES} bytes" in refusal(b'{"epoch": ' + b"1" * MOST_BYTES + b"}")


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
NAMES = st.one_of(st.sampled_from(sorted(WHOLE)), st.text(max_size=12))


@given(
    st.one_of(st.binary(max_size=200), st.dictionaries(NAMES, VALUES, max_size=8).map(lambda d: json.dumps(d).encode()))
)
@example(b'{"epoch": ' + b"9" * 4000 + b"}")
@example(b'{"epoch": ' + b"[" * 900 + b"]" * 900 + b"}")
@example(b'{"\\ud800": 1, "saved": "\\ud800"}')
def test_nothing_but_a_refusal_comes_of_any_bytes(raw: bytes) -> None:
    rank, sentence = 0, ""
    try:
        rank = parse_line(raw).rank
    except ReportRefusedError as refused:
        sentence = str(refused)
    assert 0 <= rank < 1_000_000
    assert len(sentence) < 400
    assert sentence.isprintable()

"""Messages between the agent and the report listener, and the trusted parts."""

import json
from typing import Any

import pytest

from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.reports_protocol import (
    MAX_LINE,
    MOST_HEARD,
    Heard,
    Listen,
    decode_heard,
    decode_listen,
    encode,
)
from stoker_tuning.reports.figures import ReportFigures, ReportSummary
from stoker_tuning.reports.line import parse_line
from tests.support.cases import cases


def test_a_word_is_understood_as_it_was_said() -> None:
    heard = Heard({"u1": ReportSummary(phase="Training", epoch=3, loss="nan", age=1.5)})
    assert decode_heard(encode(heard)) == heard
    assert decode_listen(encode(Listen(("u1", "u2"), ("a", "b")))).by_namespace() == {"u1": "a", "u2": "b"}
    assert decode_listen(b'{"pods": ["u1", "u2"]}').by_namespace() == {"u1": "", "u2": ""}


@pytest.mark.parametrize("uid", ["", "../u1", "a/b", "x" * 65])
def test_a_pod_that_could_be_another_folder_is_refused(uid: str) -> None:
    with pytest.raises(ProtocolError):
        decode_listen(json.dumps({"pods": [uid]}).encode())


@cases(
    "said",
    {"phase": "x" * 41},
    {"checkpoint": "x" * 257},
    {"stall_percent": 101},
    {"epoch": -1},
    {"epoch": 2**60},
    {"age": 1e300},
    {"items_per_second": 1e300},
    {"loss": 0.5},
)
def test_a_listener_that_was_taken_over_is_not_believed_everything(said: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        decode_heard(json.dumps({"pods": {"u1": said}}).encode())


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b'{"pods": 1}'])
def test_what_is_no_word_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_heard(line)


def test_whatever_a_pod_may_say_is_within_those_bounds() -> None:
    most: dict[str, Any] = {"epoch": 10**9, "epochs": 10**9, "step": 2**53 - 1, "batch": 2**53 - 1, "batch_size": 10**9}
    most |= {"items": 10**9, "wait_seconds": 86400, "compute_seconds": 0, "learning_rate": 1e9, "loss": -1e30}
    most |= {"saved": "\U0001f4be" * 512, "kind": "Architecture", "framework": "f" * 40, "phase": "HyperparamTuning"}
    figures = ReportFigures()
    for number in range(6400):
        line = most | {"rank": number % 64, "world_size": 10**6, "u" * 60: 1, "v" * 60: 2, "w" * 60: 3}
        figures.add(parse_line(json.dumps(line, ensure_ascii=False).encode()), number * 0.05)
        figures.refuse("x" * 4096)
    heard = Heard({"u1": figures.summary(6400 * 0.05)})
    assert decode_heard(encode(heard)) == heard
    assert len(encode(heard)) * MOST_HEARD < MAX_LINE

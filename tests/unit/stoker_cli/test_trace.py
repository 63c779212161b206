"""Traces are parsed line by line. Errors name the line."""

import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_cli.errors import CliError
from stoker_cli.tuning.trace import FORMAT, Ended, Mounted, Truth, parse_trace, read_trace
from stoker_tuning.training.accesses import ModelFileAction, ModelFileUse, SeenAccess, SelfReport
from stoker_tuning.vocabulary import AccessSource, ModelFileKind, TrainingPhase
from tests.support.cases import cases

HEADER = json.dumps({"trace": FORMAT, "files": [["train/a.jpg", 10], ["val/b.jpg", 10]]})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["t", "w", "f", "o", "n", "r", "by", "says", "model", "did", "kind", "head", "truth", "phase"])


@cases(
    "line, event",
    ('{"t": 1, "f": 1}', SeenAccess(1.0, 1, 0, 0, 0, AccessSource.FUSE)),
    (
        '{"t": 1, "f": 1, "o": 5, "n": 6, "r": 7, "by": "fanotify"}',
        SeenAccess(1.0, 1, 5, 6, 7, AccessSource.FANOTIFY),
    ),
    ('{"t": 1, "says": {"phase": "Training", "epoch": 2}}', SelfReport(1.0, TrainingPhase.TRAINING, 2)),
    (
        '{"t": 1, "model": "a.pt", "did": "saved", "kind": "Checkpoint"}',
        ModelFileUse(1.0, "a.pt", ModelFileKind.CHECKPOINT, ModelFileAction.SAVED),
    ),
    (
        '{"t": 1, "model": "x", "did": "loaded", "head": "R0dVRgMAAAA="}',
        ModelFileUse(1.0, "x", ModelFileKind.WEIGHTS, ModelFileAction.LOADED),
    ),
    ('{"t": 1, "truth": {"phase": null}}', Truth(1.0, None)),
    ('{"t": 1, "mounted": true}', Mounted(1.0)),
    ('{"t": 1, "ended": true}', Ended(1.0)),
)
def test_each_kind_of_line_is_an_event(line: str, event: object) -> None:
    assert list(parse_trace([HEADER, line], "x").events) == [("workload", event)]


@cases(
    "lines, sentence",
    ([], "line 1"),
    (["{}"], "line 1: the first line must be"),
    ([HEADER, "nonsense"], "line 2: Expecting value"),
    ([HEADER, "", '{"f": 1}'], "line 3: 't' is missing"),
    ([HEADER, '{"t": 1}'], "line 2: it needs one of f"),
    ([HEADER, '{"t": 1, "f": "a"}'], "line 2: invalid literal"),
    ([HEADER, "[]"], "line 2: not a JSON object"),
    ([HEADER, '{"t": 1, "says": {"phase": "Sleeping"}}'], "line 2: 'Sleeping' is not a valid TrainingPhase"),
    ([HEADER, '{"t": 1, "model": "a", "did": "saved", "head": "?"}'], "line 2: head is not base64"),
)
def test_an_error_names_its_line(lines: list[str], sentence: str) -> None:
    with pytest.raises(CliError, match=sentence):
        list(parse_trace(lines, "x").events)


@given(st.dictionaries(KEYS, JSON, max_size=6))
def test_a_line_is_an_event_or_refused(line: dict[str, object]) -> None:
    with suppress(CliError):
        assert list(parse_trace([HEADER, json.dumps(line)], "x").events)


def test_a_compressed_trace_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(f'{HEADER}\n{{"t": 1, "f": 0}}\n'.encode()))
    assert len(list(read_trace(path).events)) == 1


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(HEADER.encode())[:-9])
    with pytest.raises(CliError, match=r"Cannot read .*trace"):
        read_trace(path)

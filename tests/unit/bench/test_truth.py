"""A trace is made of what fanotify saw and what the programs logged."""

import json
from pathlib import Path

from bench.truth.fanotify import FileEvent
from bench.truth.recording import accesses, saves, trace_lines
from stoker_cli.trace import parse_trace
from stoker_tuning.training.accesses import ModelFileAction, ModelFileUse, SeenAccess
from stoker_tuning.vocabulary import AccessSource, ModelFileKind

DATA = Path("/data/a.jpg")


def opened(path: Path, session: int) -> FileEvent:
    return FileEvent(5.0, path, 12, session, opened=True, created=False, written=False)


def test_opens_of_a_workloads_session_are_its_accesses() -> None:
    events = [opened(DATA, 10), opened(DATA, 99), opened(Path("/data/other"), 10)]
    assert list(accesses(events, {10: "run-0"}, {DATA: 3})) == [
        {"t": 5.0, "w": "run-0", "f": 3, "r": 12, "by": "fanotify"}
    ]


def test_a_checkpoint_is_saving_and_then_saved_with_its_head(tmp_path: Path) -> None:
    path = tmp_path / "epoch0.pt"
    path.write_bytes(b"GGUF\3\0\0\0")
    both = FileEvent(5.0, path, 12, 10, opened=True, created=True, written=True)
    begun, ended = saves([both, opened(tmp_path / "truth", 10)], {tmp_path: "run-0"})
    assert (begun["did"], ended["did"], ended["head"]) == ("saving", "saved", "R0dVRgMAAAA=")


def test_the_trace_begins_at_zero_and_ends_with_the_truth() -> None:
    truth = [json.dumps({"t": seconds, "truth": {"phase": phase}}) for seconds, phase in ((7, "Training"), (9, None))]
    events = [
        {"t": 8.5, "w": "run-0", "model": "a.pt", "did": "saved", "kind": "Checkpoint"},
        {"t": 8.0, "w": "run-0", "f": 0, "r": 1, "by": "fanotify"},
    ]
    lines = trace_lines([("a.jpg", 10)], {"run-0": truth}, events)
    parsed = [event for _, event in parse_trace(lines, "x").events]
    assert [event.seconds for event in parsed] == [0.0, 0.0, 1.0, 1.5, 2.0, 2.0]
    assert parsed[2:4] == [
        SeenAccess(1.0, 0, 0, 0, 1, AccessSource.FANOTIFY),
        ModelFileUse(1.5, "a.pt", ModelFileKind.CHECKPOINT, ModelFileAction.SAVED),
    ]

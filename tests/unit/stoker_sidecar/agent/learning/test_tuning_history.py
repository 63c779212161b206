import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stoker_sidecar.agent.learning.tuning_history import (
    MOST_TEXT,
    SCHEMA_VERSION,
    HistoryKind,
    HistoryRow,
    TuningHistory,
    change_row,
    outcome_of,
    phase_row,
    prediction_row,
)
from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict, WindowFigures
from stoker_tuning.learning.foresight import Prediction, Want
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

CHANGE = Change(
    "c1", 10.0, "vision/imagenet", "v1", "uid", TrainingPhase.TRAINING, AccessPattern.SHUFFLED, "prefetch_depth",
    64, 512, "ahead", "vision/resnet-0",
)  # fmt: skip
BEFORE, AFTER, CONTROL = WindowFigures(6, 1000.0, 0.3), WindowFigures(6, 1250.0, 0.1), WindowFigures(6, 500.0)
OUTCOME = ChangeOutcome(CHANGE, 20.0, ChangeVerdict.HELPED, 0.25, 0.1, 0.4, BEFORE, AFTER, CONTROL, CONTROL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuning.db"


def row(number: int, pod: str = "vision/resnet-0", dataset: str = "vision/imagenet") -> HistoryRow:
    return phase_row(float(number), dataset, pod, "Training", "Validation", 10.0 * number)


def numbers(rows: list[HistoryRow]) -> list[float]:
    return [one.at for one in rows]


def test_an_outcome_comes_back_after_a_restart_as_it_was(path: Path) -> None:
    TuningHistory(path).add([change_row(OUTCOME)])
    (found,) = TuningHistory(path).rows(kind=HistoryKind.CHANGE)

    assert outcome_of(found) == OUTCOME
    assert (found.dataset, found.pod) == ("vision/imagenet", "vision/resnet-0")


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"change": 3}', '{"change": {"phase": "Resting", "pattern": "x"}}'])
def test_a_row_of_another_form_is_no_outcome(body: str) -> None:
    assert outcome_of(HistoryRow(1.0, HistoryKind.CHANGE, "a/b", "c/d", body)) is None


def test_rows_come_newest_first_of_whom_is_asked_for(path: Path) -> None:
    history = TuningHistory(path)
    prediction = Prediction(TrainingPhase.VALIDATION, Want.VALIDATION, 10.0, 0.8)
    foreseen = prediction_row(3.0, "vision/imagenet", "vision/resnet-0", prediction, "Validation", hit=True)
    history.add([row(1), row(2, "nlp/bert-0", "nlp/wiki"), foreseen, row(4)])

    assert numbers(history.rows()) == [4, 3, 2, 1]
    assert numbers(history.rows(most=2)) == [4, 3]
    assert numbers(history.rows(about="nlp/wiki")) == [2]
    assert numbers(history.rows(about="vision/resnet-0")) == [4, 3, 1]
    assert numbers(history.rows(namespace="nlp")) == [2]
    assert numbers(history.rows(namespace="nl")) == []
    assert history.rows(kind=HistoryKind.PREDICTION)[0].wire()["hit"] is True


def test_the_oldest_rows_go_beyond_the_bound(path: Path) -> None:
    history = TuningHistory(path, most_rows=40)
    for number in range(25):
        history.add([row(number)])

    assert numbers(history.rows()) == list(range(24, 14, -1))


def test_phases_push_out_no_changes(path: Path) -> None:
    history = TuningHistory(path, most_rows=40)
    history.add([change_row(OUTCOME)])
    history.add([row(number) for number in range(100)])

    assert len(history.rows()) == 11
    assert len(history.rows(kind=HistoryKind.CHANGE)) == 1


def test_the_file_does_not_grow_beyond_its_bytes(path: Path) -> None:
    history = TuningHistory(path, most_bytes=64 * 1024)
    for number in range(60):
        assert history.add([row(number)._replace(body='{"text": "' + "x" * 3000 + '"}')])

    assert path.stat().st_size <= 64 * 1024
    assert numbers(history.rows())[0] == 59


def test_a_row_that_is_too_long_is_left_out(path: Path) -> None:
    history = TuningHistory(path)
    history.add([row(1)._replace(body="x" * MOST_TEXT), row(2)])

    assert numbers(history.rows()) == [2]


def test_what_sql_would_take_for_a_command_is_a_name(path: Path) -> None:
    history = TuningHistory(path)
    history.add([row(1, pod="a/'; DROP TABLE history; --")])

    assert numbers(history.rows(about="a/'; DROP TABLE history; --")) == [1]


@pytest.mark.expected_logs("is renamed to tuning.damaged and starts empty")
def test_a_damaged_file_is_put_aside_and_begun_anew(path: Path) -> None:
    path.write_bytes(b"this is no database" * 100)
    history = TuningHistory(path)

    assert history.add([row(1)])
    assert numbers(history.rows()) == [1]
    assert path.with_suffix(".damaged").read_bytes().startswith(b"this is no database")


@pytest.mark.expected_logs("is renamed to tuning.damaged and starts empty")
def test_a_file_that_is_damaged_within_is_put_aside_when_that_is_seen(path: Path) -> None:
    history = TuningHistory(path)
    history.add([row(number) for number in range(500)])
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))

    assert history.rows() == []
    assert history.add([row(501)])
    assert numbers(history.rows()) == [501]


@pytest.mark.expected_logs(f"it is of version 99, and this is version {SCHEMA_VERSION}")
def test_a_file_of_another_version_is_put_aside(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 99")
    history = TuningHistory(path)
    history.add([row(1)])

    assert numbers(history.rows()) == [1]
    assert path.with_suffix(".damaged").exists()


@pytest.mark.expected_logs("cannot be written or read for now")
def test_where_nothing_can_be_written_that_is_said_once_and_it_goes_on_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    history = TuningHistory(folder / "tuning.db")

    assert [history.add([row(1)]), history.add([row(2)]), history.rows()] == [False, False, []]
    assert len(caplog.records) == 1
    folder.mkdir()
    assert history.add([row(3)])
    assert numbers(history.rows()) == [3]


@pytest.mark.expected_logs("database or disk is full")
def test_a_full_disk_costs_the_rows_and_nothing_else(path: Path) -> None:
    history = TuningHistory(path, most_bytes=4 * 4096)  # room for the empty tables only, which is like no room
    long = row(1)._replace(body='{"text": "' + "x" * 4000 + '"}')

    assert history.add([long] * 20) is False
    assert history.rows() == []

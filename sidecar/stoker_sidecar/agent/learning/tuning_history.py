"""The history of a node's tuning: one bounded SQLite file in the agent's state folder. It survives restarts.

Only the agent writes it. It replaces a file that is damaged or has another schema, and keeps the old one aside. If the
file is not writable (no space, a broken disk), rows are lost and one warning is logged. No other part needs the rows.
"""

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from stoker_tuning.learning.changes import Change, ChangeOutcome, ChangeVerdict, WindowFigures
from stoker_tuning.learning.foresight import Prediction
from stoker_tuning.vocabulary import AccessPattern, TrainingPhase

log = logging.getLogger(__name__)

# Bytes of one row's text. Names are arbitrary, and a knob's value may be long.
MOST_TEXT = 4096
_FIGURES = ("before", "after", "control_before", "control_after")


class HistoryKind(StrEnum):
    """Kind of a row."""

    CHANGE = "change"
    PHASE = "phase"
    PREDICTION = "prediction"


class HistoryRow(NamedTuple):
    """One row. ``at``: seconds since the epoch; ``dataset``, ``pod``: NAMESPACE/NAME; ``body``: the rest as JSON."""

    at: float
    kind: HistoryKind
    dataset: str
    pod: str
    body: str

    def wire(self) -> dict[str, Any]:
        """Return the row for display."""
        about: dict[str, Any] = {"at": self.at, "kind": self.kind.value, "dataset": self.dataset, "pod": self.pod}
        try:
            return about | dict(json.loads(self.body))
        except (TypeError, ValueError):  # the disk lost some of its bytes
            return about


def change_row(outcome: ChangeOutcome) -> HistoryRow:
    """Return the row of a change with an outcome."""
    change = outcome.change
    return _row(outcome.at, HistoryKind.CHANGE, change.dataset, change.pod, asdict(outcome))


def phase_row(at: float, dataset: str, pod: str, old: str, new: str, items: float) -> HistoryRow:
    """Return the row of a phase that ended. ``items``: total number of items read by then."""
    return _row(at, HistoryKind.PHASE, dataset, pod, {"old": old, "new": new, "items": items})


def prediction_row(at: float, dataset: str, pod: str, prediction: Prediction, came: str, *, hit: bool) -> HistoryRow:
    """Return the row of a prediction, with the phase that followed (``came``)."""
    return _row(at, HistoryKind.PREDICTION, dataset, pod, asdict(prediction) | {"came": came, "hit": hit})


def _row(at: float, kind: HistoryKind, dataset: str, pod: str, body: dict[str, Any]) -> HistoryRow:
    return HistoryRow(at, kind, dataset, pod, json.dumps(body, separators=(",", ":")))


def outcome_of(row: HistoryRow) -> ChangeOutcome | None:
    """Return the outcome in a row; None if the row has another kind or another release's format."""
    try:
        body = json.loads(row.body)
        change = dict(body.pop("change"))
        change |= {"phase": TrainingPhase(change["phase"]), "pattern": AccessPattern(change["pattern"])}
        figures = {name: None if body[name] is None else WindowFigures(**body[name]) for name in _FIGURES}
        known = {field.name: body[field.name] for field in fields(ChangeOutcome) if field.name in body}
        verdict = ChangeVerdict(body["verdict"])
        return ChangeOutcome(**(known | figures | {"change": Change(**change), "verdict": verdict}))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


T = TypeVar("T")

SCHEMA_VERSION = 1
MOST_ROWS = 20_000  # half for changes, a quarter for each other kind, so that no kind displaces another
_SHARES = {HistoryKind.CHANGE: 0.5, HistoryKind.PHASE: 0.25, HistoryKind.PREDICTION: 0.25}
MOST_BYTES = 16 * 2**20
_PAGE = 4096
_SCHEMA = f"""
CREATE TABLE history (
  id INTEGER PRIMARY KEY,
  at REAL NOT NULL, kind TEXT NOT NULL, dataset TEXT NOT NULL, pod TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX history_kind ON history (kind, id);
PRAGMA user_version = {SCHEMA_VERSION};
"""
_SELECT = "SELECT at, kind, dataset, pod, body FROM history"
_DROP = "DELETE FROM history WHERE id IN (SELECT id FROM history WHERE kind = ? ORDER BY id LIMIT ?)"
_INSERT = "INSERT INTO history (at, kind, dataset, pod, body) VALUES (?, ?, ?, ?, ?)"
# Share of the allowed rows to drop when the file is full.
_SHARE_TO_DROP = 0.25


class TuningHistory:
    """The history in the file ``path``. Calls block. Thread-safe.

    ``most_rows``, ``most_bytes``: limits of the file. The oldest rows of a kind go when its share or the file is full.
    """

    def __init__(self, path: Path, most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._most_rows = most_rows
        self._most_pages = most_bytes // _PAGE
        self._lock = threading.Lock()
        self._told = False

    def add(self, rows: Sequence[HistoryRow]) -> bool:
        """Add rows, and drop the oldest ones beyond the limits. Return True if the rows are stored."""
        fitting = [row for row in rows if len(row.body) + len(row.dataset) + len(row.pod) <= MOST_TEXT]
        return self._with_file(lambda file: self._add(file, fitting)) is not None

    def rows(
        self, *, kind: HistoryKind | None = None, about: str = "", most: int = 1000, namespace: str = ""
    ) -> list[HistoryRow]:
        """Return the last rows, the newest first.

        Filters: ``kind``; ``about``, NAMESPACE/NAME of a Dataset or pod; ``namespace`` of the Dataset or pod.
        """
        wanted, values = ["1"], list[str | int]()
        if kind is not None:
            wanted.append("kind = ?")
            values.append(kind.value)
        if about:
            wanted.append("(dataset = ? OR pod = ?)")
            values += [about, about]
        if namespace:
            wanted.append("(substr(dataset, 1, ?) = ? OR substr(pod, 1, ?) = ?)")
            values += [len(namespace) + 1, f"{namespace}/"] * 2
        which = " AND ".join(wanted)
        query = f"{_SELECT} WHERE {which} ORDER BY at DESC, id DESC LIMIT ?"
        found = self._with_file(lambda file: file.execute(query, (*values, most)).fetchall())
        return [HistoryRow(at, HistoryKind(kind), dataset, pod, body) for at, kind, dataset, pod, body in found or ()]

    def _with_file(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of ``work`` on the file; log the error and return None if it fails."""
        with self._lock:
            try:
                done = self._tried(work)
            except (sqlite3.Error, OSError) as error:
                self._tell(error)
                return None
            self._told = False
            return done

    def _tried(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(self._opened()) as file:
                return work(file)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:  # damaged, not SQLite, or another schema version
            self._put_aside(str(error))
        with closing(self._opened()) as file:
            return work(file)

    def _add(self, file: sqlite3.Connection, rows: Sequence[HistoryRow]) -> bool:
        try:
            self._insert(file, rows, self._most_rows)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not self._most_kept(file):
                raise
            # The file is at its size limit, or the disk is full. In the second case this fails again.
            self._insert(file, rows, int(self._most_kept(file) * (1 - _SHARE_TO_DROP)))
        return True

    def _insert(self, file: sqlite3.Connection, rows: Sequence[HistoryRow], most: int) -> None:
        with file:
            for kind, share in _SHARES.items():
                own = [row for row in rows if row.kind is kind]
                room = int(most * share)
                dropped = self._kept(file, kind) + len(own) - room
                if dropped > 0:
                    file.execute(_DROP, (kind.value, dropped))
                file.executemany(_INSERT, own[-room:] if room else ())

    def _kept(self, file: sqlite3.Connection, kind: HistoryKind) -> int:
        return int(file.execute("SELECT count(*) FROM history WHERE kind = ?", (kind.value,)).fetchone()[0])

    def _most_kept(self, file: sqlite3.Connection) -> int:
        """Return the total number of rows that would give each kind its share."""
        return max(int(self._kept(file, kind) / share) for kind, share in _SHARES.items())

    def _opened(self) -> sqlite3.Connection:
        file = sqlite3.connect(self._path, timeout=5.0, check_same_thread=False)
        try:
            file.execute(f"PRAGMA max_page_count = {self._most_pages}")
            version = int(file.execute("PRAGMA user_version").fetchone()[0])
            if version == 0 and not file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                file.executescript(_SCHEMA)
            elif version != SCHEMA_VERSION:
                raise sqlite3.DatabaseError(f"it is of version {version}, and this is version {SCHEMA_VERSION}")
            return file
        except BaseException:
            file.close()
            raise

    def _put_aside(self, why: str) -> None:
        """Rename an unusable file, so that people can inspect it."""
        aside = self._path.with_suffix(".damaged")
        log.warning("the tuning history %s cannot be used, is renamed to %s and starts empty: %s",
                    self._path, aside.name, why)  # fmt: skip
        with suppress(FileNotFoundError):
            self._path.replace(aside)
        for left in ("-journal", "-wal", "-shm"):
            Path(f"{self._path}{left}").unlink(missing_ok=True)

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("the history of tuning %s cannot be written or read for now, its rows are lost: %s",
                        self._path, error)  # fmt: skip

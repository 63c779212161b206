"""The history of a node's tuning: one SQLite file beside the agent's state, bounded, which survives restarts.

Only the agent writes it. A file that is damaged, or of another version's form, is put aside and begun anew; where it
cannot be written (no room, a broken disk) rows are lost and that is said once: nothing else depends on them.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from stoker_sidecar.agent.core.history_rows import MOST_TEXT, HistoryKind, HistoryRow

log = logging.getLogger(__name__)
T = TypeVar("T")

SCHEMA_VERSION = 1
MOST_ROWS = 20_000  # half of them of changes, a fourth of each other kind: none pushes out another
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
# Of the rows that there may be, those that go when there is no room in the file.
_SHARE_TO_DROP = 0.25


class TuningHistory:
    """The history in the file ``path``. Its calls block; they may come from any thread.

    ``most_rows``, ``most_bytes``: of the file; the oldest rows of a kind go when it has its share, or the file is full.
    """

    def __init__(self, path: Path, most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._most_rows = most_rows
        self._most_pages = most_bytes // _PAGE
        self._lock = threading.Lock()
        self._told = False

    def add(self, rows: Sequence[HistoryRow]) -> bool:
        """Add rows, and drop the oldest ones beyond the bounds; return whether they are kept."""
        fitting = [row for row in rows if len(row.body) + len(row.dataset) + len(row.pod) <= MOST_TEXT]
        return self._with_file(lambda file: self._add(file, fitting)) is not None

    def rows(
        self, *, kind: HistoryKind | None = None, about: str = "", most: int = 1000, namespace: str = ""
    ) -> list[HistoryRow]:
        """Return the last rows, the newest first.

        ``kind``: of this kind alone. ``about``: of the Dataset or pod of this NAMESPACE/NAME. ``namespace``: of what is
        in this one.
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
        """Return what comes of work on the file; None: it could not be done, which is told."""
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
        except sqlite3.DatabaseError as error:  # damaged, or not SQLite's, or of another version
            self._put_aside(str(error))
        with closing(self._opened()) as file:
            return work(file)

    def _add(self, file: sqlite3.Connection, rows: Sequence[HistoryRow]) -> bool:
        try:
            self._insert(file, rows, self._most_rows)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL or not self._most_kept(file):
                raise
            # Either the file's own bound, or the disk: then this fails again.
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
        """Return for how many rows in all the kinds have their share now."""
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
        """Keep one file that cannot be used, for whoever wants to look at it."""
        aside = self._path.with_suffix(".damaged")
        log.warning("the history of tuning %s cannot be used, is put aside as %s and begun anew: %s",
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

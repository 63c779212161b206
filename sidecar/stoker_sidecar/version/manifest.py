"""The manifest of a version: its files and folders, immutable, in one SQLite file that is read in bounded memory."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from stoker_sidecar.errors import CacheDiskFailed, ManifestInvalid

# user_version of the file; a reader refuses another.
FORMAT = 1

ENTRY_COLUMNS = "ino, parent, name, is_dir, size, mtime_ns, etag, version_id"

CREATE = """
CREATE TABLE info (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (
  ino INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name BLOB NOT NULL, is_dir INTEGER NOT NULL,
  size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, etag TEXT NOT NULL, version_id TEXT NOT NULL
);
"""

# Created after the rows: half the time of keeping it up to date, and a denser file.
CREATE_INDEX = "CREATE UNIQUE INDEX by_name ON entry (parent, name)"

# The listing in arrival order. The primary key sorts it on disk, so that memory does not grow with the source.
CREATE_LISTING = """
CREATE TABLE object (
  sort_key BLOB NOT NULL, is_dir INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  etag TEXT NOT NULL, version_id TEXT NOT NULL, PRIMARY KEY (sort_key, is_dir)
) WITHOUT ROWID
"""
ROOT_INO = 1
# Page cache of SQLite in negative KiB: 4 MiB hold the inner nodes of an index over two million rows.
_CACHE_SIZE = -4096
_PAGE_ROWS = 256
_KEPT_PAGES = 4
_SCAN_ROWS = 4096  # of a walk over names only: some 0.5 MB


class Entry(NamedTuple):
    """A file or folder of a manifest.

    ``size`` in bytes, ``mtime_ns`` since 1970 (a folder's: its newest file's), ``name`` raw UTF-8.
    """

    ino: int
    parent: int
    name: bytes
    is_dir: bool
    size: int
    mtime_ns: int
    etag: str
    version_id: str


@dataclass(frozen=True)
class Skipped:
    """Keys that cannot be files: the reason (a SkipReason), the number, and an example."""

    reason: str
    count: int
    example: str


@dataclass(frozen=True)
class ManifestInfo:
    """Totals of a version. ``bytes``: sum of file sizes; ``directories`` includes the root."""

    digest: str
    files: int
    bytes: int
    directories: int
    skipped: tuple[Skipped, ...] = ()


class Manifest:
    """A manifest file, open for reading. Every query raises CacheDiskFailed when the disk fails.

    Inode numbers are dense: 1 is the root, then depth first, siblings by name. Not for concurrent threads: each thread
    opens a separate one.
    """

    def __init__(self, connection: sqlite3.Connection, info: ManifestInfo) -> None:
        self._connection = connection
        self.info = info
        # Files come folder by folder: a few hundred cached paths save a climb to the root for each file.
        self._folder = lru_cache(maxsize=256)(self.path)
        # Nodes that share a version walk it repeatedly from their first missing file.
        self._page_at = lru_cache(maxsize=_KEPT_PAGES)(self.page)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a manifest file. Raises ManifestInvalid if it is missing, damaged or of another format."""
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise ManifestInvalid(f"the manifest {path.name} cannot be opened: {error}") from error
        try:
            connection.execute(f"PRAGMA cache_size = {_CACHE_SIZE}")
            return cls(connection, _read_info(connection))
        except (sqlite3.Error, KeyError, ValueError) as error:
            connection.close()
            raise ManifestInvalid(f"the manifest {path.name} is damaged: {error}") from error

    @property
    def last_ino(self) -> int:
        """The highest inode number; every number from 1 to it is in use."""
        return self.info.files + self.info.directories

    def lookup(self, parent: int, name: bytes) -> Entry | None:
        """Find the child of that name, or None."""
        return self._one("parent = ? AND name = ?", (parent, name))

    def entry(self, ino: int) -> Entry | None:
        """Find a file or folder by its inode number, or None."""
        return self._one("ino = ?", (ino,))

    def entries_of(self, inos: Sequence[int]) -> dict[int, Entry]:
        """Find files and folders by their inode numbers, some hundred per query. Missing ones are absent."""
        found: dict[int, Entry] = {}
        for first in range(0, len(inos), _PAGE_ROWS):
            some = tuple(inos[first : first + _PAGE_ROWS])
            marks = ",".join("?" * len(some))
            found |= {entry.ino: entry for entry in self._many(f"ino IN ({marks})", some)}
        return found

    def children(self, ino: int, after: int = 0) -> Iterator[Entry]:
        """List children by inode number (and so by name) after the inode ``after``.

        It works in pages, so the caller may stop early.
        """
        previous = self.entry(after) if after else None
        name = previous.name if previous is not None else b""
        while rows := self._many("parent = ? AND name > ? ORDER BY name", (ino, name)):
            yield from rows
            name = rows[-1].name

    def files(self, after: int = 0) -> Iterator[Entry]:
        """List all files in canonical order, after the inode ``after``."""
        return (entry for entry in self.entries(after) if not entry.is_dir)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """List files and folders in canonical order, after the inode ``after``."""
        while rows := self.page(after):
            yield from rows
            after = rows[-1].ino

    def page(self, after: int) -> list[Entry]:
        """Return the next few hundred files and folders after the inode ``after``, in canonical order.

        Empty at the end.
        """
        return self._many("ino > ? ORDER BY ino", (after,))

    def page_with(self, ino: int) -> Sequence[Entry]:
        """Return a page that contains an inode, possibly from a cache."""
        return self._page_at((ino - 1) // _PAGE_ROWS * _PAGE_ROWS)

    def walk(self) -> Iterator[tuple[bytes, Entry]]:
        """List everything below the root with its path, in canonical order.

        Raises ManifestInvalid if a parent is missing.
        """
        return _with_paths(self.entries(after=ROOT_INO))

    def folders(self) -> Iterator[tuple[bytes, Entry]]:
        """List the folders below the root with their paths, in canonical order. Raises as ``walk``."""
        query = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE is_dir = 1 AND ino > {ROOT_INO} ORDER BY ino"
        return _with_paths(_entry(row) for row in self._connection.execute(query))

    def path(self, ino: int) -> str:
        """Return the path below the root, without a leading slash; the root's is empty.

        Raises KeyError for an unknown inode.
        """
        if ino == ROOT_INO:
            return ""
        entry = self.entry(ino)
        if entry is None:
            raise KeyError(ino)
        return self.path_of(entry)

    def path_of(self, entry: Entry) -> str:
        """Return the path of a known entry below the root, with one query less than ``path``."""
        name = entry.name.decode()
        return f"{self._folder(entry.parent)}/{name}" if entry.parent != ROOT_INO else name

    def find(self, path: str) -> Entry | None:
        """Find the entry at a relative path; the root for an empty one."""
        entry = self.entry(ROOT_INO)
        for name in path.encode().split(b"/") if path else ():
            entry = self.lookup(entry.ino, name) if entry is not None else None
        return entry

    def last_below(self, ino: int) -> int:
        """Return the last inode of a folder's content, whose numbers follow the folder's. For a file, return its inode.

        Raises KeyError for an unknown inode.
        """
        entry = self.entry(ino)
        while entry is not None and entry.is_dir and entry.ino != ROOT_INO:
            after = self._many("parent = ? AND name > ? ORDER BY name", (entry.parent, entry.name), 1)
            if after:
                return after[0].ino - 1
            entry = self.entry(entry.parent)  # it is the last child, so its folder ends with it
        if entry is None:
            raise KeyError(ino)
        return self.last_ino if entry.is_dir else entry.ino

    def scan(self, query: str, values: tuple[int, ...] = ()) -> Iterator[list[Any]]:
        """Run a query over many rows, some thousand at a time: see manifest_scans. Raises CacheDiskFailed."""
        try:
            rows = self._connection.execute(query, values)
            while page := rows.fetchmany(_SCAN_ROWS):
                yield page
        except sqlite3.Error as error:
            raise _unreadable(error) from error

    def copy_to(self, path: Path) -> None:
        """Write a copy of the manifest from the open file, which may have been deleted.

        Blocks. Raises ManifestInvalid.
        """
        try:
            with closing(sqlite3.connect(path)) as target:
                self._connection.backup(target)
        except sqlite3.Error as error:
            raise ManifestInvalid(f"the manifest of {self.info.digest[:12]} cannot be copied: {error}") from error

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._connection.close()

    def _one(self, condition: str, values: tuple[int | bytes, ...]) -> Entry | None:
        query = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE {condition}"
        try:
            row = self._connection.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise _unreadable(error) from error
        return _entry(row) if row is not None else None

    def _many(self, condition: str, values: tuple[int | bytes, ...], most: int = _PAGE_ROWS) -> list[Entry]:
        query = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE {condition} LIMIT {most}"
        try:
            return [_entry(row) for row in self._connection.execute(query, values)]
        except sqlite3.Error as error:
            raise _unreadable(error) from error


def _with_paths(entries: Iterator[Entry]) -> Iterator[tuple[bytes, Entry]]:
    """Join paths with only the open folders in memory, because a folder's content follows it."""
    open_folders: list[tuple[int, bytes]] = [(ROOT_INO, b"")]
    for entry in entries:
        while open_folders and open_folders[-1][0] != entry.parent:
            open_folders.pop()
        if not open_folders:
            raise ManifestInvalid(f"the manifest's inode {entry.ino} has no open folder {entry.parent}")
        path = b"/".join(filter(None, (open_folders[-1][1], entry.name)))
        if entry.is_dir:
            open_folders.append((entry.ino, path))
        yield path, entry


def _unreadable(error: sqlite3.Error) -> CacheDiskFailed:
    return CacheDiskFailed(f"the manifest cannot be read from the cache disk: {error}")


def _entry(row: tuple[int, int, bytes, int, int, int, str, str]) -> Entry:
    ino, parent, name, is_dir, size, mtime_ns, etag, version_id = row
    return Entry(ino, parent, name, bool(is_dir), size, mtime_ns, etag, version_id)


def _read_info(connection: sqlite3.Connection) -> ManifestInfo:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found != FORMAT:
        raise ValueError(f"format {found} where {FORMAT} was expected")
    values = dict(connection.execute("SELECT key, value FROM info").fetchall())
    skipped = tuple(Skipped(*row) for row in json.loads(values["skipped"]))
    return ManifestInfo(values["digest"], values["files"], values["bytes"], values["directories"], skipped)


def folder_inos(manifest: Manifest) -> Iterator[int]:
    """List the inodes of all folders."""
    return (ino for page in manifest.scan("SELECT ino FROM entry WHERE is_dir = 1") for (ino,) in page)


def names_in(manifest: Manifest, ino: int) -> Iterator[list[tuple[int, str]]]:
    """List inodes and names of a folder's children, by name."""
    query = "SELECT ino, CAST(name AS TEXT) FROM entry WHERE parent = ? AND name > X'' ORDER BY name"
    return manifest.scan(query, (ino,))


def names_between(manifest: Manifest, first: int, last: int) -> Iterator[list[tuple[int, str]]]:
    """List inodes and names of a range of inodes."""
    return manifest.scan("SELECT ino, CAST(name AS TEXT) FROM entry WHERE ino BETWEEN ? AND ?", (first, last))


def sizes_between(manifest: Manifest, first: int, last: int) -> Iterator[list[tuple[int]]]:
    """List the sizes of all files and folders in a range of inodes, in order."""
    return manifest.scan("SELECT size FROM entry WHERE ino BETWEEN ? AND ? ORDER BY ino", (first, last))

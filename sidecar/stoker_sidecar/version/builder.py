"""Builds a manifest from listed objects in any order, in bounded memory, and checks one that another node built."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker_sidecar.errors import EmptySource, ManifestInvalid, NoMatch
from stoker_sidecar.version.manifest import (
    CREATE,
    CREATE_INDEX,
    CREATE_LISTING,
    ENTRY_COLUMNS,
    FORMAT,
    ROOT_INO,
    Manifest,
    ManifestInfo,
    Skipped,
)
from stoker_sidecar.version.objects import ListedObject, is_folder_marker, skip_reason
from stoker_sidecar.version.tree import CanonicalDigest, Row, TreeBuilder, sort_key

_INSERT_OBJECT = "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_ENTRY = f"INSERT INTO entry ({ENTRY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class ManifestBuilder:
    """Builds one manifest: ``add`` pages of the listing, then ``finish``.

    A context manager: the temporary table goes at exit. ``path`` is where the manifest is written, for the caller to
    move into place; ``selected`` tells which paths belong to the dataset.
    """

    def __init__(self, path: Path, selected: Callable[[str], bool] = lambda path: True) -> None:
        self._path = path
        self._selected = selected
        self._temporary = path.with_name(path.name + ".listing")
        self._temporary.unlink(missing_ok=True)
        self._listing = _connect(self._temporary)
        self._listing.execute(CREATE_LISTING)
        self._skipped: dict[str, tuple[int, str]] = {}
        self.seen = 0
        self.matched = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listing.close()
        self._temporary.unlink(missing_ok=True)

    def add(self, objects: Iterable[ListedObject]) -> None:
        """Add one page, in any order.

        What ``selected`` leaves out does not count; what cannot be a file is counted as skipped.
        """
        self._listing.executemany(_INSERT_OBJECT, self._rows(objects))

    def finish(self, source: str = "the source") -> ManifestInfo:
        """Write the manifest. Raises EmptySource or NoMatch with a sentence that names ``source``."""
        self._path.unlink(missing_ok=True)
        manifest = _connect(self._path)
        try:
            manifest.executescript(CREATE)
            info = self._write(manifest, source)
            manifest.execute(CREATE_INDEX)
            manifest.execute(f"PRAGMA user_version = {FORMAT}")
            manifest.commit()
        finally:
            manifest.close()
        return info

    def _rows(self, objects: Iterable[ListedObject]) -> Iterator[tuple[bytes, bool, int, int, str, str]]:
        for found in objects:
            if not found.path:  # the marker of the source's own folder
                continue
            self.seen += 1
            if not self._selected(found.path.rstrip(b"/").decode("utf-8", "surrogateescape")):
                continue
            self.matched += 1
            reason = skip_reason(found.path, found.size)
            if reason is not None:
                self._skip(reason, found.path.decode("utf-8", "backslashreplace"))
                continue
            is_dir = is_folder_marker(found.path)
            key = sort_key(found.path[:-1] if is_dir else found.path)
            yield key, is_dir, found.size, found.mtime_ns, found.etag, found.version_id

    def _write(self, manifest: sqlite3.Connection, source: str) -> ManifestInfo:
        tree = TreeBuilder()
        rows = self._listing.execute("SELECT * FROM object ORDER BY sort_key, is_dir")
        manifest.executemany(_INSERT_ENTRY, tree.nodes(Row(*row) for row in rows))
        for reason, (count, example) in tree.skipped.items():
            self._skip(reason, example, count)
        if tree.files == 0:
            raise self._nothing(source)
        skipped = tuple(Skipped(reason, *found) for reason, found in sorted(self._skipped.items()))
        info = ManifestInfo(tree.digest.hexdigest(), tree.files, tree.total_bytes, tree.directories, skipped)
        manifest.executemany("INSERT INTO info VALUES (?, ?)", _info_rows(info))
        return info

    def _skip(self, reason: str, example: str, count: int = 1) -> None:
        before, first = self._skipped.get(reason, (0, example))
        self._skipped[reason] = (before + count, first)

    def _nothing(self, source: str) -> EmptySource | NoMatch:
        if self.seen == 0:
            return EmptySource(f"{source} holds no object: check the bucket and the prefix")
        if self.matched == 0:
            return NoMatch(
                f"none of the {self.seen} objects under {source} is selected by include and exclude: "
                "patterns are relative to the prefix, such as train/**"
            )
        reasons = ", ".join(f"{count} {reason}" for reason, (count, _) in sorted(self._skipped.items()))
        return EmptySource(
            f"none of the {self.matched} objects under {source} can be a file ({reasons or 'folders only'})"
        )


def _info_rows(info: ManifestInfo) -> list[tuple[str, str | int]]:
    skipped = json.dumps([[item.reason, item.count, item.example] for item in info.skipped])
    totals = [("files", info.files), ("bytes", info.bytes), ("directories", info.directories)]
    return [("digest", info.digest), ("skipped", skipped), *totals]


def _connect(path: Path) -> sqlite3.Connection:
    # No journal and no sync: a build that is cut off is thrown away whole, the file gets its name only when done.
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -16384")
    return connection


def verify(path: Path, digest: str) -> ManifestInfo:
    """Recompute the digest from the rows, in one pass. Raises ManifestInvalid when anything does not fit."""
    manifest = Manifest.open(path)
    try:
        _check_numbers(manifest)
        found = _digest(manifest)
        if not found == digest == manifest.info.digest:
            raise ManifestInvalid(f"the manifest holds version {found} where {digest} was asked for")
        return manifest.info
    finally:
        manifest.close()


def _check_numbers(manifest: Manifest) -> None:
    for before, after in pairwise(manifest.entries()):
        if after.ino != before.ino + 1 or not ROOT_INO <= after.parent < after.ino:
            raise ManifestInvalid(f"the manifest's inode {after.ino} (parent {after.parent}) is out of order")


def _digest(manifest: Manifest) -> str:
    digest = CanonicalDigest()
    for path, entry in manifest.walk():
        if b"/" in entry.name or skip_reason(path, 0) is not None:
            raise ManifestInvalid(f"the manifest's path {path!r} cannot be a file")
        if entry.is_dir:
            digest.add_folder(path)
        else:
            digest.add_file(path, entry.size, entry.etag, entry.version_id, entry.mtime_ns)
    return digest.hexdigest()

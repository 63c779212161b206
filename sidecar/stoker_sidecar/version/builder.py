"""Builds a manifest from listed objects in any order, in bounded memory, and verifies one from another node."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker_api.meta import format_bytes, shortened
from stoker_sidecar.errors import EmptySource, InvalidSource, ManifestInvalid, NoMatch, SourceTooLarge
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
from stoker_sidecar.version.objects import PATH_MAX, ListedObject, SkipReason, is_folder_marker, skip_reason
from stoker_sidecar.version.tree import CanonicalDigest, Row, TreeBuilder, sort_key

# Limits on one object and on a source, in bytes: a hundred times the limits of stores, and far below int64, which
# manifests, statuses and file systems use.
MOST_OBJECT_BYTES = 2**50
MOST_SOURCE_BYTES = 2**60
_MOST_SHOWN = 200  # characters of a path in a sentence or an example
_LAST_NS = 2**63 - 1  # latest time, in nanoseconds since 1970: the year 2262
_INSERT_OBJECT = "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_ENTRY = f"INSERT INTO entry ({ENTRY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class ManifestBuilder:
    """Builds one manifest: ``add`` pages of the listing, then ``finish``.

    A context manager, which removes the temporary table at exit. ``path`` is the file to write, which the caller moves
    into place. ``selected`` returns True for paths of the dataset, ``below`` for folders that may contain such paths.
    """

    def __init__(
        self,
        path: Path,
        selected: Callable[[str], bool] = lambda path: True,
        below: Callable[[str], bool] = lambda folder: True,
    ) -> None:
        self._path = path
        self._selected = selected
        self._below = below
        self._temporary = path.with_name(path.name + ".listing")
        self._temporary.unlink(missing_ok=True)
        self._listing = _connect(self._temporary)
        self._listing.execute(CREATE_LISTING)
        self._skipped: dict[str, tuple[int, str]] = {}
        self.seen = 0
        self.matched = 0
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listing.close()
        self._temporary.unlink(missing_ok=True)

    def add(self, objects: Iterable[ListedObject]) -> None:
        """Add one page, in any order.

        Objects outside ``selected`` do not count. Objects that cannot be files count as skipped.
        """
        self._listing.executemany(_INSERT_OBJECT, self._rows(objects))

    def finish(self, source: str = "the source") -> ManifestInfo:
        """Write the manifest. Raises EmptySource or NoMatch with a sentence that names ``source``."""
        # the rows are read in order now: the memory is for the manifest's cache
        self._listing.execute("PRAGMA cache_size = -2048")
        rows = self._listing.execute("SELECT * FROM object ORDER BY sort_key, is_dir")
        with new_manifest(self._path) as manifest:
            tree = write_rows(manifest, (Row(*row) for row in rows))
            for reason, (count, example) in tree.skipped.items():
                self._skip(reason, example, count)
            if tree.files == 0:
                raise self._nothing(source)
            skipped = tuple(Skipped(reason, *found) for reason, found in sorted(self._skipped.items()))
            return note_totals(manifest, tree, skipped)

    def _rows(self, objects: Iterable[ListedObject]) -> Iterator[tuple[bytes, bool, int, int, str, str]]:
        for found in objects:
            if not found.path:  # the marker of the source's folder
                continue
            self.seen += 1
            if found.skipped is not None:
                self._unlisted(found, found.skipped)
                continue
            # Before pattern matching: a store's keys end at 1,024 bytes, and a file's path at 4,095.
            if len(found.path) > PATH_MAX:
                self._skip(SkipReason.PATH_TOO_LONG, _shown(found.path))
            elif self._selected(found.path.rstrip(b"/").decode("utf-8", "surrogateescape")):
                self.matched += 1
                yield from self._row(found)

    def _unlisted(self, found: ListedObject, reason: SkipReason) -> None:
        """Count an entry that the source cannot list, unless patterns exclude it."""
        path = found.path.rstrip(b"/").decode("utf-8", "surrogateescape")
        if (self._below if is_folder_marker(found.path) else self._selected)(path):
            self.matched += 1
            self._skip(reason, _shown(found.path))

    def _row(self, found: ListedObject) -> Iterator[tuple[bytes, bool, int, int, str, str]]:
        reason = skip_reason(found.path, found.size)
        if reason is not None:
            self._skip(reason, _shown(found.path))
            return
        self._count(found)
        is_dir = is_folder_marker(found.path)
        key = sort_key(found.path[:-1] if is_dir else found.path)
        mtime_ns = max(-_LAST_NS, min(found.mtime_ns, _LAST_NS))
        yield key, is_dir, found.size, mtime_ns, found.etag, found.version_id

    def _count(self, found: ListedObject) -> None:
        if not 0 <= found.size <= MOST_OBJECT_BYTES:
            raise InvalidSource(
                f"{_shown(found.path)} is said to have {found.size} bytes: no store keeps such an object"
            )
        self.bytes += found.size
        if self.bytes > MOST_SOURCE_BYTES:
            raise SourceTooLarge(
                f"the source has more than {format_bytes(MOST_SOURCE_BYTES)}: name a smaller part of it"
            )

    def _skip(self, reason: str, example: str, count: int = 1) -> None:
        before, first = self._skipped.get(reason, (0, example))
        self._skipped[reason] = (before + count, shortened(first, _MOST_SHOWN))

    def _nothing(self, source: str) -> EmptySource | NoMatch:
        if self.seen == 0:
            return EmptySource(f"{source} holds no object: check the bucket and the prefix")
        if self.matched == 0:
            return NoMatch(
                f"none of the {self.seen} objects under {source} is selected by include and exclude: "
                "patterns are relative to the prefix, such as train/**"
            )
        reasons = ", ".join(
            f"{count} {reason} (such as {example})" for reason, (count, example) in sorted(self._skipped.items())
        )
        left_out = f"; left out: {reasons}" if reasons else " (folders only)"
        return EmptySource(f"none of the {self.matched} objects under {source} can be a file{left_out}")


def _shown(path: bytes) -> str:
    """Return the beginning of a path for people, without terminal control characters."""
    text = path[:_MOST_SHOWN].decode("utf-8", "backslashreplace")
    escaped = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return shortened(escaped, _MOST_SHOWN)


@contextmanager
def new_manifest(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield an empty manifest for rows and totals, then add its index and format."""
    path.unlink(missing_ok=True)
    manifest = _connect(path)
    try:
        manifest.executescript(CREATE)
        yield manifest
        manifest.execute(CREATE_INDEX)
        manifest.execute(f"PRAGMA user_version = {FORMAT}")
        manifest.commit()
    finally:
        manifest.close()


def write_rows(manifest: sqlite3.Connection, rows: Iterable[Row]) -> TreeBuilder:
    """Write rows, ascending by (sort_key, is_dir). Return the tree with their totals."""
    tree = TreeBuilder()
    manifest.executemany(_INSERT_ENTRY, tree.nodes(rows))
    return tree


def note_totals(manifest: sqlite3.Connection, tree: TreeBuilder, skipped: tuple[Skipped, ...] = ()) -> ManifestInfo:
    """Write the totals of the rows."""
    info = ManifestInfo(tree.digest.hexdigest(), tree.files, tree.total_bytes, tree.directories, skipped)
    listed = json.dumps([[item.reason, item.count, item.example] for item in skipped])
    totals = [("files", info.files), ("bytes", info.bytes), ("directories", info.directories)]
    manifest.executemany("INSERT INTO info VALUES (?, ?)", [("digest", info.digest), ("skipped", listed), *totals])
    return info


def _connect(path: Path) -> sqlite3.Connection:
    # No journal and no sync: an interrupted build is discarded, and the file gets its name only when it is complete.
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -16384")
    return connection


def verify(path: Path, digest: str) -> ManifestInfo:
    """Recompute the digest from the rows, in one pass. Raises ManifestInvalid on any mismatch."""
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

"""A manifest that another node sent: its rows are read, and everything else is made anew from them.

A version's digest is over its rows. What else a database holds (indexes, totals, triggers, views) nobody has digested,
and lookups would go by it: a forged index gives one file's bytes under another's name. So no process opens a file that
came from elsewhere but the one that fetched it, and that one reads it as a list of rows alone.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast
from urllib.parse import quote

from stoker_sidecar.errors import ManifestInvalid
from stoker_sidecar.version.builder import new_manifest, note_totals, write_rows
from stoker_sidecar.version.manifest import CREATE, CREATE_INDEX, ENTRY_COLUMNS, ROOT_INO, ManifestInfo
from stoker_sidecar.version.objects import skip_reason
from stoker_sidecar.version.tree import Row, sort_key

_MOST_VALUE = 65_536  # bytes of one value: names have 255, ETags and version ids 1,024
_TYPES = (int, int, bytes, int, int, int, str, str)


def rebuild(received: Path, path: Path, digest: str) -> ManifestInfo:
    """Build the manifest of version ``digest`` at ``path`` from the rows of ``received``, in one pass. Blocks.

    Raises ManifestInvalid when they are not that version.
    """
    try:
        with closing(_open(received)) as source, new_manifest(path) as manifest:
            tree = write_rows(manifest, _rows(source))
            if tree.digest.hexdigest() != digest:
                raise ManifestInvalid(f"the manifest holds version {tree.digest.hexdigest()} and not {digest}")
            return note_totals(manifest, tree)
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise ManifestInvalid(f"the manifest that came is damaged: {error}") from error


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        _check_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection) -> None:
    """Raise ManifestInvalid unless there are our tables and our index and nothing else: no view, no trigger."""
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema LIMIT 10") if sql is not None}
    if found != _SCHEMA:
        raise ManifestInvalid("the manifest that came has other tables than a manifest")


def _rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Give the rows with their paths. Raises ManifestInvalid for one that no listing could have made."""
    query = f"SELECT {ENTRY_COLUMNS} FROM entry NOT INDEXED ORDER BY ino"
    folders: list[tuple[int, bytes]] = [(ROOT_INO, b"")]
    last_ino, last_key = ROOT_INO, (b"", False)
    found = map(_checked, connection.execute(query))
    next(found, None)  # the root's own row
    for ino, parent, name, is_dir, size, mtime_ns, etag, version_id in found:
        while folders and folders[-1][0] != parent:
            folders.pop()
        path = b"/".join(filter(None, (folders[-1][1], name))) if folders else b""
        row = Row(sort_key(path), bool(is_dir), size, mtime_ns, etag, version_id)
        if ino != last_ino + 1 or row[:2] <= last_key or b"/" in name or skip_reason(path, 0) is not None or size < 0:
            raise ManifestInvalid(
                f"the manifest that came has a row that no listing makes: inode {ino}, {path[:200]!r}"
            )
        if is_dir:
            folders.append((ino, path))
        last_ino, last_key = ino, row[:2]
        yield row


def _checked(row: tuple[object, ...]) -> tuple[int, int, bytes, int, int, int, str, str]:
    if not all(type(value) is kind for value, kind in zip(row, _TYPES, strict=True)):
        raise ManifestInvalid("the manifest that came has a row whose values are of other types than a manifest's")
    return cast("tuple[int, int, bytes, int, int, int, str, str]", row)


def _statements(script: str) -> set[str]:
    return {statement.strip() for statement in script.split(";") if statement.strip()}


_SCHEMA = _statements(CREATE) | _statements(CREATE_INDEX)

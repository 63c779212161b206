"""The canonical order of a version's files and folders, the version's digest, and the tree of its rows.

Rows in canonical order become a numbered tree in one pass, with the memory of one path.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker_sidecar.version.objects import SkipReason

ROOT = 1  # inode number of the root
# Sorting with NUL for '/' puts a folder's content directly after the folder's name ("a", "a/x", "a-b"). So one pass
# sees each folder once, in depth-first order, with siblings by name. No stored key contains NUL.
_SEPARATOR = b"\0"


def sort_key(path: bytes) -> bytes:
    """Return the key that sorts paths in canonical order."""
    return path.replace(b"/", _SEPARATOR)


def path_of(key: bytes) -> bytes:
    """Return the path of a sort key."""
    return key.replace(_SEPARATOR, b"/")


def holds(folder_key: bytes, key: bytes) -> bool:
    """Return True if ``key`` lies below ``folder_key``; both are sort keys."""
    return key.startswith(folder_key + _SEPARATOR)


class CanonicalDigest:
    """The name of a version: SHA-256 over its rows in canonical order.

    A length precedes each field, so that no two lists collide.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"stoker manifest 1\n")

    def add_file(self, path: bytes, size: int, etag: str, version_id: str, mtime_ns: int) -> None:
        """Add one file; fields as in Entry."""
        self._add(b"f", path, b"%d" % size, etag.encode(), version_id.encode(), b"%d" % mtime_ns)

    def add_folder(self, path: bytes) -> None:
        """Add one folder, empty or not."""
        self._add(b"d", path)

    def hexdigest(self) -> str:
        """Return the version's name: 64 hexadecimal digits."""
        return self._hash.hexdigest()

    def _add(self, *fields: bytes) -> None:
        self._hash.update(b"".join(b"%d:%b" % (len(field), field) for field in fields))


class Row(NamedTuple):
    """An object under its sort key."""

    sort_key: bytes
    is_dir: bool
    size: int
    mtime_ns: int
    etag: str
    version_id: str


class TreeNode(NamedTuple):
    """A numbered file or folder, in the order of the columns of a manifest."""

    ino: int
    parent: int
    name: bytes
    is_dir: bool
    size: int
    mtime_ns: int
    etag: str
    version_id: str


@dataclass
class _Folder:
    """A folder with content still to come."""

    ino: int
    parent: int
    name: bytes
    sort_key: bytes
    newest_ns: int = 0


@dataclass
class TreeBuilder:
    """Numbers files and folders depth first, and computes their totals and digest.

    ``nodes`` yields a folder's node after its content, so not in the order of its number.
    """

    files: int = 0
    total_bytes: int = 0
    directories: int = 1
    shadowed: int = 0  # files left out because a folder has the same name
    shadowed_example: bytes = b""
    digest: CanonicalDigest = field(default_factory=CanonicalDigest)
    _stack: list[_Folder] = field(default_factory=lambda: [_Folder(ROOT, ROOT, b"", b"")])
    _last: int = ROOT

    def nodes(self, rows: Iterable[Row]) -> Iterator[TreeNode]:
        """Yield the numbered node of each row, ascending by (sort_key, is_dir). The root's node is the last."""
        for row, following in _pairs(rows):
            if row.is_dir:
                yield from self._enter(row.sort_key)
                self._stack[-1].newest_ns = max(self._stack[-1].newest_ns, row.mtime_ns)
            elif following is not None and _is_folder(row, following):
                self._shadow(row)
            else:
                yield from self._file(row)
        yield from self._leave(0)

    @property
    def skipped(self) -> dict[SkipReason, tuple[int, str]]:
        """Left-out keys by reason: their number and an example."""
        if not self.shadowed:
            return {}
        return {SkipReason.FILE_AND_FOLDER: (self.shadowed, self.shadowed_example.decode())}

    def _file(self, row: Row) -> Iterator[TreeNode]:
        folder_key, _, name = row.sort_key.rpartition(b"\0")
        yield from self._enter(folder_key)
        folder = self._stack[-1]
        folder.newest_ns = max(folder.newest_ns, row.mtime_ns)
        self.files += 1
        self.total_bytes += row.size
        self.digest.add_file(path_of(row.sort_key), row.size, row.etag, row.version_id, row.mtime_ns)
        yield TreeNode(self._next(), folder.ino, name, False, row.size, row.mtime_ns, row.etag, row.version_id)

    def _enter(self, folder_key: bytes) -> Iterator[TreeNode]:
        """Make ``folder_key`` the innermost open folder: close folders outside its path, open new ones."""
        segments = folder_key.split(b"\0") if folder_key else []
        depth = 0
        while depth < min(len(segments), len(self._stack) - 1) and self._stack[depth + 1].name == segments[depth]:
            depth += 1
        yield from self._leave(depth + 1)
        for name in segments[depth:]:
            self._open(name)

    def _open(self, name: bytes) -> None:
        outer = self._stack[-1]
        key = outer.sort_key + b"\0" + name if outer.ino != ROOT else name
        self.directories += 1
        self.digest.add_folder(path_of(key))
        self._stack.append(_Folder(self._next(), outer.ino, name, key))

    def _leave(self, depth: int) -> Iterator[TreeNode]:
        while len(self._stack) > depth:
            folder = self._stack.pop()
            if self._stack:
                self._stack[-1].newest_ns = max(self._stack[-1].newest_ns, folder.newest_ns)
            yield TreeNode(folder.ino, folder.parent, folder.name, True, 0, folder.newest_ns, "", "")

    def _shadow(self, row: Row) -> None:
        self.shadowed += 1
        self.shadowed_example = self.shadowed_example or path_of(row.sort_key)

    def _next(self) -> int:
        self._last += 1
        return self._last


def _is_folder(row: Row, following: Row) -> bool:
    return following.sort_key == row.sort_key or holds(row.sort_key, following.sort_key)


def _pairs(rows: Iterable[Row]) -> Iterator[tuple[Row, Row | None]]:
    iterator = iter(rows)
    current = next(iterator, None)
    while current is not None:
        following = next(iterator, None)
        yield current, following
        current = following

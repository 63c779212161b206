"""Hides doubtful files from readers: after an unclean stop a version has no tree until its files are checked.

``set_aside`` is one rename a version, so a cache folder is safe before it is served. ``check_tree`` then deletes
doubtful files, and ``release`` gives the tree its name back.
"""

import os
import shutil
from collections.abc import Callable, Generator
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from stoker_sidecar.fetcher.ondisk.sync_point import SyncPoint
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.store.core.object_checksum import looks_like_md5, new_digest
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.version.manifest import Entry, Manifest


class FileStatus(NamedTuple):
    """Fields of stat(2) of a cached file: ``size`` in bytes, times in nanoseconds since 1970."""

    size: int
    mtime_ns: int
    ctime_ns: int


class Belief(Enum):
    """Trust in a file's content before it is read."""

    RIGHT = "right"
    UNPROVEN = "unproven"  # its bytes may be missing: a checksum decides, and without one it is deleted
    WRONG = "wrong"


def believe(found: FileStatus, expected: FileStatus, *, in_doubt: bool, synced_ns: int) -> Belief:
    """Compare a file with its entry in the manifest. The ``ctime_ns`` of the entry is not used.

    ``in_doubt``: the machine or the disk stopped uncleanly since the file arrived. A file system may then keep the name
    and size of a file whose bytes it lost. ``synced_ns``: the start of the last sync that covered this file, 0 for
    none.

    The fetcher sets size and mtime before it gives a file its name, so without doubt these two suffice. The kernel sets
    the ctime, and also when a file is renamed: a file with an older ctime was in the tree when the sync began.
    """
    if (found.size, found.mtime_ns) != (expected.size, expected.mtime_ns):
        return Belief.WRONG
    if in_doubt and found.ctime_ns >= synced_ns:
        return Belief.UNPROVEN
    return Belief.RIGHT


# Files and bytes of one step of a check: some 20 ms. Other Datasets use the same threads in between.
_STEP_FILES = 1024
_STEP_BYTES = 16 * 1024**2
_READ = 1024 * 1024


def set_aside(paths: VersionPaths) -> None:
    """Hide the tree from all readers, and mark the version. Idempotent. Raises OSError.

    Existing bind mounts and overlays hold the folder itself and still see it.
    """
    paths.doubtful.touch()
    paths.complete.unlink(missing_ok=True)
    if not is_there(paths.tree):
        return
    if is_there(paths.quarantine):  # arrivals since the last stop, possibly unsynced
        paths.tree.rename(CachePaths(paths.root).trash / uuid4().hex)
    else:
        paths.tree.rename(paths.quarantine)


def release(paths: VersionPaths) -> None:
    """Give a checked tree its name back. Raises OSError."""
    if is_there(paths.quarantine):
        paths.quarantine.rename(paths.tree)


def check_tree(
    tree: Path, manifest: Manifest, sync: SyncPoint, keep: Callable[[Entry], None], *, in_doubt: bool
) -> Generator[None, None, list[int]]:
    """Call ``keep`` for each file that is believed, and delete each other file; return the inodes of deleted files.

    Each step blocks for some milliseconds. Raises OSError: a file that cannot be deleted must not be served.
    """
    deleted: list[int] = []
    base = os.fsencode(tree)
    for number, (path, entry) in enumerate(manifest.walk()):
        if number % _STEP_FILES == 0:
            yield
        file = base + b"/" + path
        if entry.is_dir or (found := _status(file)) is None:
            continue
        expected = FileStatus(entry.size, entry.mtime_ns, 0)
        belief = believe(found, expected, in_doubt=in_doubt, synced_ns=sync.of(entry.ino))
        if belief is Belief.RIGHT or (belief is Belief.UNPROVEN and (yield from _is_proven(file, entry.etag))):
            keep(entry)
        else:
            delete_emptied(file)
            deleted.append(entry.ino)
    return deleted


def delete_emptied(file: bytes) -> None:
    """Delete a file, and empty it if no other version has it, so that open readers see its end. Raises OSError."""
    try:
        if os.lstat(file).st_nlink == 1:
            os.chmod(file, 0o600)  # noqa: PTH101 -- bytes
            os.truncate(file, 0)
        os.unlink(file)  # noqa: PTH108 -- bytes
    except IsADirectoryError:
        shutil.rmtree(file)


def _status(file: bytes) -> FileStatus | None:
    """Return None for a file that is not there. Raises OSError when the disk does not answer."""
    try:
        found = os.lstat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileStatus(found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_proven(file: bytes, etag: str) -> Generator[None, None, bool]:
    """Compare the MD5 of a whole file with its ETag; a file that cannot be read is not proven."""
    if not looks_like_md5(etag):
        return False
    digest, read = new_digest("md5"), 0
    try:
        with open(file, "rb", buffering=0) as opened:  # noqa: PTH123 -- bytes
            while piece := opened.read(_READ):
                digest.update(piece)
                read += len(piece)
                if read % _STEP_BYTES == 0:
                    yield
    except OSError:
        return False
    return digest.digest().hex() == etag

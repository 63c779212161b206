"""Writes bytes to the cache disk: straight to the file, checked, then renamed into the tree.

Blocks: run it in threads.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.linux.files import disk_error, disk_errors
from stoker_sidecar.store.core.object_checksum import Digest, new_digest
from stoker_sidecar.version.manifest import Entry

_FILE_MODE, _OWN_MODE = 0o444, 0o600  # mode under the final name, and mode before
_READ = 1024 * 1024
# Small enough to stay in a core's private cache between reading and hashing. 64 to 512 KiB are equally fast.
_HASH_READ = 256 * 1024


class Dated(Protocol):
    """Size and modification time of a file in the manifest."""

    @property
    def size(self) -> int:
        """Bytes."""
        ...

    @property
    def mtime_ns(self) -> int:
        """Nanoseconds since 1970."""
        ...


@dataclass
class FileWriter:
    """Writes a body in order from ``offset`` of ``path``. Opens the file at the first write.

    ``digest`` receives every byte. ``creating``: the file is new. Otherwise it must exist: a new file would have zeros
    in place of its other chunks.
    """

    path: str
    offset: int
    creating: bool = True
    digest: Digest | None = None
    _descriptor: int = -1

    def write(self, data: bytes | memoryview) -> None:
        """Append. Raises DiskFull or CacheDiskFailed."""
        with disk_errors(_name(self.path)):
            if self._descriptor < 0:
                creating = os.O_CREAT if self.creating else 0
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | creating, _OWN_MODE)
            self._write_all(data)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write_all(self, piece: bytes | memoryview) -> None:
        if self.digest is not None:
            self.digest.update(piece)
        view = memoryview(piece)
        while view:
            written = os.pwrite(self._descriptor, view, self.offset)
            self.offset += written
            view = view[written:]


def write_whole(path: str, pieces: Sequence[bytes | memoryview], target: str, entry: Dated) -> None:
    """Write a small file in one step. With a ``target``, set its mode and mtime and rename it, as ``publish`` does.

    It uses the descriptor: for a file of 4 KiB, calls by path took a third of the system time. Raises DiskFull or
    CacheDiskFailed.
    """
    try:
        # A killed worker may have left a part of the same piece.
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_TRUNC, _OWN_MODE)
        try:
            _write_pieces(descriptor, pieces)
            if target:
                _check_size(target, os.fstat(descriptor).st_size, entry)
                os.fchmod(descriptor, _FILE_MODE)
                os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(descriptor)
        if target:
            os.rename(path, target)  # noqa: PTH104 -- Path takes twice the time, for each of a million files
    except OSError as error:
        raise disk_error(_name(target or path), error) from error


def _write_pieces(descriptor: int, pieces: Sequence[bytes | memoryview]) -> None:
    for piece in pieces:
        view = memoryview(piece)
        while view:
            view = view[os.write(descriptor, view) :]


def _check_size(target: str, size: int, entry: Dated) -> None:
    if size != entry.size:
        raise CacheDiskFailed(f"{_name(target)} has {size} bytes on the cache disk where {entry.size} were written")


def publish(temporary: str, target: str, entry: Dated) -> None:
    """Set the mode and mtime of a complete file and rename it to ``target``. Raises DiskFull or CacheDiskFailed."""
    with disk_errors(_name(target)):
        _check_size(target, os.stat(temporary).st_size, entry)  # noqa: PTH116 -- as above
        os.chmod(temporary, _FILE_MODE)  # noqa: PTH101 -- as above
        os.utime(temporary, ns=(entry.mtime_ns, entry.mtime_ns))
        os.rename(temporary, target)  # noqa: PTH104 -- as above


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def file_digest(path: Path, algorithm: str) -> bytes:
    """Return the digest of a whole file, mostly from the page cache. Raises CacheDiskFailed."""
    return digest_file(path, new_digest(algorithm))


def digest_file(path: Path, digest: Digest) -> bytes:
    """Update ``digest`` with a whole file and return its result. Raises CacheDiskFailed."""
    buffer = memoryview(bytearray(_HASH_READ))
    with disk_errors(path.name), path.open("rb", buffering=0) as file:
        while length := file.readinto(buffer):
            digest.update(buffer[:length])
    return digest.digest()


def is_intact(path: str, entry: Dated) -> bool:
    """Return True if a file of the tree has the size and mtime of its entry. Both are set before it gets its name."""
    try:
        found = os.stat(path)  # noqa: PTH116 -- as above
    except OSError:
        return False
    return found.st_size == entry.size and found.st_mtime_ns == entry.mtime_ns


def is_readable(path: Path, entry: Entry, offset: int, length: int) -> bool:
    """Return True if a file of the tree is intact by size and mtime, and the given bytes are readable."""
    if not is_intact(str(path), entry):
        return False
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            return entry.size == 0 or bool(file.read(min(length, _READ)))
    except OSError:
        return False

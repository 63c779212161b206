"""Writes a metadata layer as a folder of placeholders, one inode per file, for kernels that cannot mount images."""

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from stoker_sidecar.version.manifest import Entry


class Modes(NamedTuple):
    """The permissions of all entries of a layer."""

    folder: int
    file: int


READ_ONLY = Modes(0o755, 0o444)
# Below the upper layer of one pod, which only this pod's users reach. They may all write.
WRITABLE = Modes(0o777, 0o666)
METACOPY = b"trusted.overlay.metacopy"
REDIRECT = b"trusted.overlay.redirect"


class FolderDraft:
    """A folder under construction, and a context manager. Enter the root first and leave it last.

    Each open folder has a descriptor, so that names stay short and no path is too long. All methods raise OSError.
    """

    def __init__(self, path: Path, modes: Modes = READ_ONLY) -> None:
        self._path = path
        self._modes = modes
        self._open: list[tuple[int, Entry]] = []

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the folders that an error left open."""
        for folder, _ in self._open:
            with suppress(OSError):
                os.close(folder)

    def enter(self, entry: Entry) -> None:
        """Create a folder in the open one, or the root. Later entries go into it."""
        parent = self._open[-1][0] if self._open else None
        name = entry.name if self._open else os.fsencode(self._path)
        os.mkdir(name, 0o700, dir_fd=parent)
        self._open.append((os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent), entry))

    def place(self, path: bytes, entry: Entry) -> None:
        """Create a placeholder in the open folder."""
        fd = os.open(entry.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, self._modes.file, dir_fd=self._open[-1][0])
        try:
            os.ftruncate(fd, entry.size)
            for name, value in placeholder_attributes(path, entry):
                os.setxattr(fd, name, value)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        except OSError as error:  # a path of thousands of bytes does not fit into an attribute
            raise OSError(error.errno, f"{error.strerror} at the file {path[:200]!r}") from error
        finally:
            os.close(fd)

    def leave(self) -> None:
        """Finish the open folder. Mode and times come last, because creating children changes them."""
        folder, entry = self._open.pop()
        try:
            os.fchmod(folder, self._modes.folder)
            os.utime(folder, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(folder)

    def finish(self) -> None:
        """Do nothing: leaving the root completes the folder."""


def placeholder_attributes(path: bytes, entry: Entry) -> list[tuple[bytes, bytes]]:
    """Return the attributes that make a file a placeholder of an overlay and name the source of its bytes. Pure."""
    # Absolute, because only then does the kernel search the data layers.
    return [(METACOPY, b""), (REDIRECT, b"/" + path), *source_attributes(path, entry)]


def source_attributes(path: bytes, entry: Entry) -> list[tuple[bytes, bytes]]:
    """Return the attributes with a file's source, as the FUSE server reports it. Pure."""
    rows = [(b"user.stoker.key", path), (b"user.stoker.etag", entry.etag.encode())]
    if entry.version_id:
        rows.append((b"user.stoker.version", entry.version_id.encode()))
    return rows

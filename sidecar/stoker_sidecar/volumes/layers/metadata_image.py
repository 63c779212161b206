"""Writes a metadata layer as an image: one sequentially written file instead of an inode per file."""

import errno
import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker_sidecar.errors import ManifestInvalid, MountError
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.volumes.core import erofs_image
from stoker_sidecar.volumes.core.erofs_image import BLOCK, EntryKind, FolderBlocks
from stoker_sidecar.volumes.layers.metadata_folder import READ_ONLY, Modes, placeholder_attributes

_BUFFER = 256 * 1024
# Buffered bytes of folder blocks, which are written together. Each write ends the current block of inodes.
_SETTLE = 256 * 1024
_LABEL = "security.selinux"


@dataclass
class _OpenFolder:
    entry: Entry
    offset: int
    blocks: FolderBlocks
    folders: int = 0


class ImageDraft:
    """An EROFS image under construction, and a context manager. Enter the root first and leave it last.

    Inodes are written in canonical order. The inode of a folder is written once its entries are known, which follow its
    content. ``most`` is the maximum size in bytes. ``modes`` are those of all entries. Methods raise OSError,
    ManifestInvalid for values that the format cannot hold, and MountError if the image becomes too large.
    """

    def __init__(self, path: Path, most: int, modes: Modes = READ_ONLY) -> None:
        self._most = most
        self._modes = modes
        self._inodes = 0
        self._at = 0
        self._open: list[_OpenFolder] = []
        self._left: list[tuple[_OpenFolder, bytes]] = []
        self._left_bytes = 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=_BUFFER)
        self._common = _label(descriptor)
        self._write(bytes(erofs_image.FIRST_INODE))

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        with nullcontext() if error is None else suppress(OSError):  # the first error is the one to report
            self._file.close()

    def enter(self, entry: Entry) -> None:
        """Start a folder in the open one, or the root. Later entries go into it."""
        offset = self._at
        number = erofs_image.slot(offset)
        above = number
        if self._open:
            parent = self._open[-1]
            above = erofs_image.slot(parent.offset)
            self._add(parent, entry, number, EntryKind.FOLDER)
            parent.folders += 1
        folder = _OpenFolder(entry, offset, FolderBlocks(number, above))
        self._write(self._inode_of(folder, (0, 0)))
        self._open.append(folder)
        self._inodes += 1

    def place(self, path: bytes, entry: Entry) -> None:
        """Write a file into the open folder."""
        self._add(self._open[-1], entry, erofs_image.slot(self._at), EntryKind.FILE)
        try:
            rows = [erofs_image.attribute(name, value) for name, value in placeholder_attributes(path, entry)]
            attributes = b"".join((self._common, *rows))
            self._write(erofs_image.file_inode(entry.ino, entry.size, entry.mtime_ns, self._modes.file, attributes))
        except ValueError as error:
            raise ManifestInvalid(f"{error}, of the file {path[:200]!r}") from error
        self._inodes += 1

    def leave(self) -> None:
        """Finish the open folder."""
        folder = self._open.pop()
        blocks = folder.blocks.finish()
        self._left.append((folder, blocks))
        self._left_bytes += len(blocks)
        if self._left_bytes >= _SETTLE:
            self._settle()

    def finish(self) -> None:
        """Write the remaining folders and the super block, which completes the image."""
        self._settle()
        blocks = self._at // BLOCK
        root = erofs_image.slot(erofs_image.FIRST_INODE)
        self._put(erofs_image.SUPER_BLOCK_AT, erofs_image.super_block(root, self._inodes, blocks))

    def _add(self, folder: _OpenFolder, entry: Entry, number: int, kind: EntryKind) -> None:
        try:
            folder.blocks.add(entry.name, number, kind)
        except ValueError as error:
            raise ManifestInvalid(f"the manifest is out of order: {error}") from error

    def _settle(self) -> None:
        """Write the entries of finished folders, and their inodes with the position of the entries."""
        self._write(bytes(-self._at % BLOCK))
        for folder, blocks in self._left:
            place = (self._at // BLOCK, len(blocks) // BLOCK)
            self._write(blocks)
            self._put(folder.offset, self._inode_of(folder, place))
        self._left.clear()
        self._left_bytes = 0

    def _inode_of(self, folder: _OpenFolder, place: tuple[int, int]) -> bytes:
        entry = folder.entry
        return erofs_image.folder_inode(
            entry.ino, place, entry.mtime_ns, self._modes.folder, folder.folders, self._common
        )

    def _write(self, data: bytes) -> None:
        self._at += len(data)
        if self._at > self._most:
            what = f"the metadata layer takes more than the {self._most >> 20} MiB that it may"
            raise MountError(errno.ENOSPC, what)
        self._file.write(data)

    def _put(self, offset: int, data: bytes) -> None:
        """Write at an earlier offset."""
        self._file.seek(offset)
        self._file.write(data)
        self._file.seek(self._at)


def _label(descriptor: int) -> bytes:
    """Return the SELinux label of new files here as an attribute for all inodes. Empty without SELinux."""
    try:
        return erofs_image.attribute(_LABEL.encode(), os.getxattr(descriptor, _LABEL))
    except OSError:
        return b""

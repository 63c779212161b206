"""Writes a metadata layer as an image: one file, written from its beginning to its end, in place of an inode a file."""

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
from stoker_sidecar.volumes.metadata_folder import DIR_MODE, FILE_MODE, placeholder_attributes

_BUFFER = 256 * 1024
# Bytes of folders that wait to be written side by side: each time ends the block that inodes are being written into.
_SETTLE = 256 * 1024
_LABEL = "security.selinux"


@dataclass
class _OpenFolder:
    entry: Entry
    offset: int
    blocks: FolderBlocks
    folders: int = 0


class ImageDraft:
    """An EROFS image in the making, and a context manager. The root is to be entered first and left last.

    Inodes are written as they come, in canonical order. A folder's is left out until its entries are known, which lie
    behind its content. ``most``: bytes that it may take. Its methods raise OSError, ManifestInvalid for what the format
    cannot hold, and MountError when it takes too much.
    """

    def __init__(self, path: Path, most: int) -> None:
        self._most = most
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
        with nullcontext() if error is None else suppress(OSError):  # what went wrong first is what is told
            self._file.close()

    def enter(self, entry: Entry) -> None:
        """Begin a folder in the one that is open, or the root; what comes lies in it."""
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
        """Write a file into the folder that is open."""
        self._add(self._open[-1], entry, erofs_image.slot(self._at), EntryKind.FILE)
        try:
            rows = [erofs_image.attribute(name, value) for name, value in placeholder_attributes(path, entry)]
            attributes = b"".join((self._common, *rows))
            self._write(erofs_image.file_inode(entry.ino, entry.size, entry.mtime_ns, FILE_MODE, attributes))
        except ValueError as error:
            raise ManifestInvalid(f"{error}, of the file {path[:200]!r}") from error
        self._inodes += 1

    def leave(self) -> None:
        """End the folder that is open."""
        folder = self._open.pop()
        blocks = folder.blocks.finish()
        self._left.append((folder, blocks))
        self._left_bytes += len(blocks)
        if self._left_bytes >= _SETTLE:
            self._settle()

    def finish(self) -> None:
        """Write what is left, and the super block, which makes it an image."""
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
        """Write the entries of folders that were left, and their inodes, which say where the entries are."""
        self._write(bytes(-self._at % BLOCK))
        for folder, blocks in self._left:
            place = (self._at // BLOCK, len(blocks) // BLOCK)
            self._write(blocks)
            self._put(folder.offset, self._inode_of(folder, place))
        self._left.clear()
        self._left_bytes = 0

    def _inode_of(self, folder: _OpenFolder, place: tuple[int, int]) -> bytes:
        entry = folder.entry
        return erofs_image.folder_inode(entry.ino, place, entry.mtime_ns, DIR_MODE, folder.folders, self._common)

    def _write(self, data: bytes) -> None:
        self._at += len(data)
        if self._at > self._most:
            what = f"the metadata layer takes more than the {self._most >> 20} MiB that it may"
            raise MountError(errno.ENOSPC, what)
        self._file.write(data)

    def _put(self, offset: int, data: bytes) -> None:
        """Write over what was left out."""
        self._file.seek(offset)
        self._file.write(data)
        self._file.seek(self._at)


def _label(descriptor: int) -> bytes:
    """Return the attribute by which SELinux knows new files here, for all that the image holds; none without it."""
    try:
        return erofs_image.attribute(_LABEL.encode(), os.getxattr(descriptor, _LABEL))
    except OSError:
        return b""

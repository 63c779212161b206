"""A folder of the node (NFS, a local disk) as an object store, and the rule for which folders may be read so.

A file's ETag is made of its mtime and its size, so it survives a copy that keeps times, a chmod and a rename. That
nobody writes to a file while it is read, its ctime tells, which no one can set. file:// sources stay beneath the
folders that the administrator allowed, wherever symbolic links lead.
"""

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from errno import ENOENT
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from stoker_sidecar.errors import (
    AccessDenied,
    CorruptBody,
    FolderNotFound,
    ObjectGone,
    ServerError,
    SourceChanged,
    SourceError,
)
from stoker_sidecar.store.base import Body, in_chunks
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.objects import ListedObject

_PAGE = 1000
_READ_SIZE = 1024 * 1024


class LocalStore:
    """An ObjectStore over a folder of the node.

    Symbolic links to files are followed, links to folders are not (they may form loops). ``allowed``: folders without
    links; what lies beneath none of them is refused.
    """

    def __init__(self, root: Path, allowed: Sequence[str]) -> None:
        self._root = root
        self._allowed = allowed

    async def list(self) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages of 1,000 objects; empty folders come as markers ``dir/``, as in S3."""
        walk = _walk(self._root, self._allowed)
        while page := await in_thread(_page, walk, self._root):
            yield page

    @asynccontextmanager
    async def get_range(
        self,
        path: str,
        offset: int,
        length: int,
        *,
        if_match: str,
        version_id: str = "",
        whole: bool = False,
        ahead: int = 0,
    ) -> AsyncIterator[Body]:
        """See ObjectStore; the ETag is checked before the first byte, and that it is the same file after every read.

        ``ahead`` would save nothing here. Raises CorruptBody when it was written meanwhile and has its date again: the
        next attempt sees which it is.
        """
        with _translated(path):
            descriptor = await in_thread(_open_beneath, self._root / path, os.O_RDONLY, path, self._allowed)
        try:
            opened = os.fstat(descriptor)
            _check_etag(opened, path, if_match)
            yield Body(in_chunks(_chunks(descriptor, path, offset, length, opened)), etag_may_be_md5=False)
        finally:
            os.close(descriptor)

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Return None: a file system keeps no checksums."""
        return None

    async def aclose(self) -> None:
        """Do nothing, since nothing is held open."""


def _page(walk: Iterator[ListedObject], root: Path) -> list[ListedObject]:
    with _translated(str(root), listing=True):
        return list(islice(walk, _PAGE))


def _walk(root: Path, allowed: Sequence[str]) -> Iterator[ListedObject]:
    base = os.fsencode(root)
    pending = [b""]
    while pending:
        folder = pending.pop()
        empty = True
        where = os.path.join(base, folder)  # noqa: PTH118 -- raw bytes: names need not be UTF-8
        try:
            descriptor = _open_beneath(where, os.O_RDONLY | os.O_DIRECTORY, os.fsdecode(where), allowed)
        except (FileNotFoundError, NotADirectoryError):
            if not folder:
                raise
            continue  # deleted since its name was read, as files may be
        with _closing(descriptor) as opened, os.scandir(opened) as entries:
            for entry in entries:
                empty = False
                name = folder + os.fsencode(entry.name)
                status = _status(entry, opened, allowed)
                if status is not None and S_ISDIR(status.st_mode):
                    pending.append(name + b"/")
                elif status is not None and S_ISREG(status.st_mode):
                    yield ListedObject(name, status.st_size, status.st_mtime_ns, _etag(status))
            if empty and folder:
                yield ListedObject(folder, 0, os.fstat(opened).st_mtime_ns, "")


def _status(entry: os.DirEntry[str], folder: int, allowed: Sequence[str]) -> os.stat_result | None:
    try:
        if not entry.is_symlink():
            return entry.stat(follow_symlinks=False)
        with _closing(os.open(entry.name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)) as target:
            status = os.fstat(target)
            if not S_ISREG(status.st_mode):
                return None
            _check_beneath(target, entry.name, allowed)
            return status
    except FileNotFoundError:  # deleted since, or a link to nowhere
        return None


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"


def _check_etag(found: os.stat_result, path: str, if_match: str) -> None:
    if if_match and _etag(found) != if_match:
        raise SourceChanged(f"{path} was written after the listing: refresh the Dataset")


def _check_unwritten(found: os.stat_result, opened: os.stat_result, path: str) -> None:
    _check_etag(found, path, _etag(opened))
    if found.st_ctime_ns != opened.st_ctime_ns:
        raise CorruptBody(f"{path} was written while it was read: what came may be of two contents")


async def _chunks(descriptor: int, path: str, offset: int, length: int, opened: os.stat_result) -> AsyncIterator[bytes]:
    end = offset + length
    while offset < end:
        with _translated(path):
            data = await in_thread(os.pread, descriptor, min(_READ_SIZE, end - offset), offset)
        if not data:
            break
        _check_unwritten(os.fstat(descriptor), opened, path)
        yield data
        offset += len(data)


@contextmanager
def _translated(what: str, *, listing: bool = False) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        named = error.filename if isinstance(error.filename, str) else what
        raise _error(error, named, listing=listing) from error


def _error(error: OSError, what: str, *, listing: bool) -> SourceError:
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    if missing and listing:
        return FolderNotFound(f"this node has no folder {what}: mount it on every selected node")
    if missing:
        return ObjectGone(f"{what} was deleted after the listing: refresh the Dataset")
    if isinstance(error, PermissionError):
        return AccessDenied(f"{what} may not be read by the sidecar ({error.strerror}): grant read access")
    return ServerError(f"{what} cannot be read: {error.strerror}")


def lies_beneath(path: str, folders: Iterable[str]) -> bool:
    """Tell whether a path is one of the folders or within one; all are absolute and without links. Pure."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def allowed_roots(source: Path, host_folders: Sequence[str]) -> tuple[str, ...]:
    """Return the host folders with their links resolved. Blocks.

    Raises AccessDenied unless ``source`` lies beneath one of them: before it is opened, and in the same words whether
    it exists or not.
    """
    roots = tuple(os.path.realpath(folder) for folder in host_folders)
    if not lies_beneath(os.path.realpath(source), roots):
        raise AccessDenied(
            f"file://{source} does not lie beneath a folder that this cluster allows to Datasets of this namespace: "
            "ask the administrator to name it, or a folder above it, in the chart's value sidecar.hostFolders"
        )
    return roots


def _check_beneath(descriptor: int, what: str, roots: Iterable[str]) -> None:
    """Raise AccessDenied unless the open file lies beneath a root.

    The descriptor is asked, not the path, so that no link can be exchanged in between.
    """
    if not lies_beneath(os.readlink(f"/proc/self/fd/{descriptor}"), roots):  # noqa: PTH115 -- memory files have no path
        raise AccessDenied(
            f"{what} is reached by a symbolic link that leads out of the folders that file:// sources may read: remove "
            "the link, or have the folder that it leads to named in the chart's value sidecar.hostFolders"
        )


def _open_beneath(path: str | bytes | Path, flags: int, what: str, roots: Iterable[str]) -> int:
    """Open a file or folder, links followed. Raises AccessDenied when they lead out of the roots, and OSError.

    What it is, and where it lies, is asked before it is opened for reading: that would wait for a pipe's writer, and
    can do something to a device.
    """
    try:
        with _closing(os.open(path, os.O_PATH | os.O_CLOEXEC)) as found:
            _check_beneath(found, what, roots)
            mode = os.fstat(found).st_mode
            if not (S_ISREG(mode) or S_ISDIR(mode)):
                raise FileNotFoundError(ENOENT, "it is neither a file nor a folder")
            return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, what) from error  # named as people know it


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    """Close the descriptor at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)

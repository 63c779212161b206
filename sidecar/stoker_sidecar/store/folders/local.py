"""A folder of the node (NFS, a local disk) as an object store, and the check of allowed folders.

A file's ETag consists of its mtime and size, so it survives a copy that keeps times, a chmod and a rename. Two folders
may have the same names, times and sizes, so the version id of each file identifies the folder. The ctime, which no
program can set, shows writes during a read. file:// sources stay beneath the folders that the administrator allowed,
wherever symbolic links lead.
"""

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from pathlib import Path

from stoker_sidecar.errors import (
    AccessDenied,
    CorruptBody,
    FolderNotFound,
    ObjectGone,
    ServerError,
    SourceChanged,
    SourceError,
)
from stoker_sidecar.store.base import Body, OnWait, in_chunks, no_matter
from stoker_sidecar.store.core.location import named_instead
from stoker_sidecar.store.core.object_checksum import Checksum
from stoker_sidecar.store.folders.folder_walk import FolderWalk, etag_of, folder_identity, lies_beneath, open_beneath
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.objects import ListedObject

_PAGE = 1000
_READ_SIZE = 1024 * 1024


class LocalStore:
    """An ObjectStore over a folder of the node.

    It follows symbolic links. ``allowed``: folders without links; it reads no file outside of them.
    """

    def __init__(self, root: Path, allowed: Sequence[str]) -> None:
        self._root = root
        self._allowed = allowed

    def identity(self) -> str:
        """Return the folder's id for the version ids of its files. Blocks."""
        return folder_identity(str(self._root), os.path.realpath(self._root), self._allowed)

    async def list(self, waits: OnWait = no_matter) -> AsyncIterator[Sequence[ListedObject]]:
        """Yield pages of 1,000 objects; empty folders come as markers ``dir/``, as in S3.

        Skipped links have a reason.
        """
        walk = FolderWalk(self._root, self._allowed, await in_thread(self.identity)).objects()
        while page := await in_thread(_page, walk, self._root):
            yield page

    @asynccontextmanager
    async def get_range(
        self, path: str, offset: int, length: int, *, if_match: str, version_id: str = "", whole: bool = False
    ) -> AsyncIterator[Body]:
        """See ObjectStore. It checks the ETag before the first byte, and after every read that the file is unchanged.

        Raises CorruptBody if the file was written during the read and its mtime reset. The next attempt reads the new
        content.
        """
        with _translated(path):
            descriptor = await in_thread(open_beneath, self._root / path, os.O_RDONLY, path, self._allowed)
        try:
            opened = os.fstat(descriptor)
            _check_etag(opened, path, if_match)
            yield Body(in_chunks(_chunks(descriptor, path, offset, length, opened)), etag_may_be_md5=False)
        finally:
            os.close(descriptor)

    async def checksum(self, path: str, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Return None: a file system keeps no checksums."""
        return None

    async def multipart_checksum(self, path: str, size: int, *, if_match: str, version_id: str = "") -> Checksum | None:
        """Return None: ETags of files are not MD5s."""
        return None

    async def aclose(self) -> None:
        """Do nothing: no file or connection stays open."""


def _page(walk: Iterator[ListedObject], root: Path) -> list[ListedObject]:
    try:
        with _translated(str(root), listing=True):
            return list(islice(walk, _PAGE))
    except FolderNotFound as error:
        path = str(root).lstrip("/")
        if sentence := named_instead("file:///", path, [path] if root.is_file() else []):
            raise FolderNotFound(sentence) from error
        raise


def _check_etag(found: os.stat_result, path: str, if_match: str) -> None:
    if if_match and etag_of(found) != if_match:
        raise SourceChanged(f"{path} was written after the listing: refresh the Dataset")


def _check_unwritten(found: os.stat_result, opened: os.stat_result, path: str) -> None:
    _check_etag(found, path, etag_of(opened))
    if found.st_ctime_ns != opened.st_ctime_ns:
        raise CorruptBody(f"{path} changed while it was read, so its bytes may be inconsistent")


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


def allowed_roots(source: Path, host_folders: Sequence[str]) -> tuple[str, ...]:
    """Return the host folders with their links resolved. Blocks.

    Raises AccessDenied unless ``source`` lies beneath one of them. It does so before ``source`` is opened, with the
    same message if ``source`` does not exist.
    """
    roots = tuple(os.path.realpath(folder) for folder in host_folders)
    if not lies_beneath(os.path.realpath(source), roots):
        raise AccessDenied(
            f"file://{source} does not lie beneath a folder that this cluster allows to Datasets of this namespace: "
            "ask the administrator to name it, or a folder above it, in the chart's value sidecar.hostFolders"
        )
    return roots

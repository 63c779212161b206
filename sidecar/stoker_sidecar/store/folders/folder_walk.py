"""Opens and lists folders of the node for file:// sources, with targets of links, only beneath allowed folders."""

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from stoker_sidecar.errors import AccessDenied, SourceTooLarge
from stoker_sidecar.version.objects import ListedObject, SkipReason

# Limit of folders behind links, including their subfolders: two folders full of links to each other would never end.
_MOST_LINKED = 1_000_000


class _PendingFolder(NamedTuple):
    """A folder to list.

    ``name``: its path below the source with a slash at the end; empty: the source itself. ``identity``: the version id
    of its files; empty: a link leads to it. ``above``: device and inode of the folders above it. ``linked``: the path
    contains a link.
    """

    name: bytes
    identity: str
    above: tuple[tuple[int, int], ...] = ()
    linked: bool = False


@dataclass
class FolderWalk:
    """Walks one source. ``allowed``: folders without links; entries outside of them are not listed.

    It follows links to files and folders. It lists skipped links with the reason.
    """

    root: Path
    allowed: Sequence[str]
    identity: str
    most_linked: int = _MOST_LINKED

    def objects(self) -> Iterator[ListedObject]:
        """Yield files, empty folders as markers ``dir/``, and skipped links. Blocks.

        Raises OSError, AccessDenied, and SourceTooLarge if links lead to too many folders.
        """
        pending, linked = [_PendingFolder(b"", self.identity)], 0
        while pending:
            folder = pending.pop()
            linked += folder.linked
            if linked > self.most_linked:
                raise SourceTooLarge(
                    f"symbolic links below {self.root} lead to more than {self.most_linked:,} folders: name a part"
                )
            yield from self._listed(folder, pending)

    def _listed(self, folder: _PendingFolder, pending: list[_PendingFolder]) -> Iterator[ListedObject]:
        where = os.path.join(os.fsencode(self.root), folder.name)  # noqa: PTH118 -- raw bytes: names need not be UTF-8
        try:
            descriptor = open_beneath(where, os.O_RDONLY | os.O_DIRECTORY, os.fsdecode(where), self.allowed)
        except (FileNotFoundError, NotADirectoryError, PermissionError, AccessDenied) as error:
            if not folder.name:
                raise
            if isinstance(error, PermissionError):
                yield _left_out(folder.name, SkipReason.UNREADABLE)
            elif isinstance(error, AccessDenied):
                yield _left_out(folder.name, SkipReason.LINK_OUTSIDE)
            return  # otherwise it was deleted after its name was read
        with closing_descriptor(descriptor) as opened:
            status = os.fstat(opened)
            number = status.st_dev, status.st_ino
            if number in folder.above:
                yield _left_out(folder.name, SkipReason.LINK_LOOP)
                return
            identity = folder.identity or folder_identity(os.fsdecode(where), place_of(opened), self.allowed)
            here = folder._replace(identity=identity, above=(*folder.above, number))
            empty = True
            with os.scandir(opened) as entries:
                for entry in entries:
                    empty = False
                    yield from self._entry(here, opened, entry, pending)
            if empty and folder.name:
                yield ListedObject(folder.name, 0, status.st_mtime_ns, "")

    def _entry(
        self, folder: _PendingFolder, opened: int, entry: os.DirEntry[str], pending: list[_PendingFolder]
    ) -> Iterator[ListedObject]:
        name, is_link = folder.name + os.fsencode(entry.name), entry.is_symlink()
        try:
            status = self._status(entry, opened)
        except FileNotFoundError:
            if _is_link(entry.name, opened):
                yield _left_out(name, SkipReason.BROKEN_LINK)
            return
        except PermissionError:  # a folder with permission to read its names only
            yield _left_out(name, SkipReason.UNREADABLE)
            return
        if status is None:
            yield _left_out(name, SkipReason.LINK_LOOP)
        elif S_ISREG(status.st_mode):
            yield ListedObject(name, status.st_size, status.st_mtime_ns, etag_of(status), folder.identity)
        elif S_ISDIR(status.st_mode):
            identity = "" if is_link else folder.identity
            pending.append(_PendingFolder(name + b"/", identity, folder.above, folder.linked or is_link))

    def _status(self, entry: os.DirEntry[str], opened: int) -> os.stat_result | None:
        """Return the status of an entry, or of a link's target; None if the link leads to itself.

        Raises AccessDenied for a file outside of ``allowed``, and OSError.
        """
        if not entry.is_symlink():
            return entry.stat(follow_symlinks=False)
        try:
            descriptor = os.open(entry.name, os.O_PATH | os.O_CLOEXEC, dir_fd=opened)
        except NotADirectoryError as error:
            raise FileNotFoundError(error.errno, error.strerror) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise
        with closing_descriptor(descriptor) as target:
            status = os.fstat(target)
            if S_ISREG(status.st_mode):
                check_beneath(target, entry.name, self.allowed)
            return status


def etag_of(status: os.stat_result) -> str:
    """Return the ETag of a file."""
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"


def _left_out(name: bytes, reason: SkipReason) -> ListedObject:
    return ListedObject(name, 0, 0, "", skipped=reason)


def _is_link(name: str, folder: int) -> bool:
    """Return False if the entry was deleted after its name was read."""
    try:
        os.readlink(name, dir_fd=folder)
    except OSError:
        return False
    return True


def lies_beneath(path: str, folders: Iterable[str]) -> bool:
    """Return True if a path is one of the folders or within one. All are absolute and without links. Pure."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def folder_identity(path: str, resolved: str, roots: Iterable[str]) -> str:
    """Return 12 hexadecimal digits of SHA-256 over a source's path and its resolved folder. Pure.

    ``roots``: host folders without links. The resolved path is relative to the nearest root, so that nodes that mount
    a shared folder in different places agree. Device and inode numbers would differ between nodes.
    """
    above = [root for root in roots if root != resolved and lies_beneath(resolved, [root])]
    below = os.path.relpath(resolved, max(above, key=len)) if above else resolved
    return hashlib.sha256(f"{path}\0{below}".encode(errors="surrogateescape")).hexdigest()[:12]


def check_beneath(descriptor: int, what: str, roots: Iterable[str]) -> None:
    """Raise AccessDenied unless the open file lies beneath a root.

    It checks the descriptor, not the path, so that no link can be exchanged in between.
    """
    if not lies_beneath(place_of(descriptor), roots):
        raise AccessDenied(
            f"{what} is reached by a symbolic link that leads out of the folders that file:// sources may read: remove "
            "the link, or have the folder that it leads to named in the chart's value sidecar.hostFolders"
        )


def place_of(descriptor: int) -> str:
    """Return the path of an open file or folder."""
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 -- memory files have no path


def open_beneath(path: str | bytes | Path, flags: int, what: str, roots: Iterable[str]) -> int:
    """Open a file or folder and follow links. Raises AccessDenied if they lead out of the roots, and OSError.

    It checks the type and path before it opens the file for reading: to open a pipe waits for a writer, and to open a
    device may have side effects.
    """
    try:
        with closing_descriptor(os.open(path, os.O_PATH | os.O_CLOEXEC)) as found:
            check_beneath(found, what, roots)
            mode = os.fstat(found).st_mode
            if not (S_ISREG(mode) or S_ISDIR(mode)):
                raise FileNotFoundError(ENOENT, "it is neither a file nor a folder")
            return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, what) from error  # with the name that people know


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    """Close the descriptor at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)

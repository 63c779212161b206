"""Opens files and folders of the node for file:// sources, only beneath the allowed folders."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from stoker_sidecar.errors import AccessDenied


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

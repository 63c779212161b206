"""Keeps file:// sources beneath the folders that the administrator allowed, wherever symbolic links lead."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stoker_sidecar.errors import AccessDenied


def lies_beneath(path: str, folders: Iterable[str]) -> bool:
    """Tell whether ``path`` is one of the folders or within one; all without links, absolute. Pure."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def allowed_roots(source: Path, host_folders: Sequence[str]) -> tuple[str, ...]:
    """Resolve the links of ``host_folders``. Raises AccessDenied unless ``source`` lies beneath one; blocks.

    It is refused before it is opened, in the same words whether it exists or not.
    """
    roots = tuple(os.path.realpath(folder) for folder in host_folders)
    if not lies_beneath(os.path.realpath(source), roots):
        raise AccessDenied(
            f"file://{source} does not lie beneath a folder that this cluster allows: ask the administrator to name it, "
            "or a folder above it, in the chart's value sidecar.hostFolders"
        )
    return roots


def check_beneath(descriptor: int, what: str, roots: Iterable[str]) -> None:
    """Raise AccessDenied when the open file lies elsewhere. What is open is asked, so no link can be exchanged in between."""
    if not lies_beneath(os.readlink(f"/proc/self/fd/{descriptor}"), roots):  # noqa: PTH115 -- memory files have no path
        raise AccessDenied(
            f"{what} is reached by a symbolic link that leads out of the folders that file:// sources may read: remove "
            "the link, or have the folder that it leads to named in the chart's value sidecar.hostFolders"
        )


def open_beneath(path: str | bytes | Path, flags: int, what: str, roots: Iterable[str]) -> int:
    """Open it, links followed. Raises AccessDenied when they lead out, and OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        check_beneath(descriptor, what, roots)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Close it at the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)

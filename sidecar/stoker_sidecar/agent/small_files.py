"""Reads several small files of a version at once, whoever owns the folder that they lie in."""

import os
from collections.abc import Sequence
from contextlib import suppress

from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.wire.small_files import MOST_BYTES


def read_small_files(paths: VersionPaths, wanted: Sequence[str]) -> list[bytes | None]:
    """Return what is in files of the tree; None: it is not here, or too much with those before it. Blocks."""
    found, left = list[bytes | None](), MOST_BYTES
    for path in wanted:
        content = _read(paths, path, left)
        found.append(content)
        left -= len(content or b"")
    return found


def _read(paths: VersionPaths, path: str, most: int) -> bytes | None:
    with suppress(OSError, ValueError):  # not whole here, no file, or no name
        descriptor = open_file_beneath(paths.root, paths.tree / path)
        try:
            size = os.fstat(descriptor).st_size
            content = os.pread(descriptor, size, 0) if size <= most else b""
            return content if len(content) == size else None
        finally:
            os.close(descriptor)
    return None

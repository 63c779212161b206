"""Which files of a version are warm here: read from its manifest and the folders of its tree, in a thread."""

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.linux.beneath import open_beneath
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import ROOT_INO, Manifest
from stoker_sidecar.wire.warm_file import encode

# As layouts are made: a thread that lets the agent's event loop run.
_PACE_FILES, _PACE_SECONDS = 4096, 0.02


class WarmSnapshot(NamedTuple):
    """What is warm at one time: the file for pods, empty where it is too large; and whether it is everything."""

    content: bytes
    is_whole: bool


def read_snapshot(paths: VersionPaths, *, ended: Callable[[], bool]) -> WarmSnapshot:
    """Look at all of a version. Blocks, without haste. Raises CacheError and OSError."""
    is_whole = is_there(paths.complete)
    with closing(Manifest.open(paths.manifest)) as manifest:
        bits, number = bytearray(-(-manifest.info.files // 8)), 0
        folders: list[tuple[str, int]] = []
        for path, ino in _folders(manifest):
            here = None if is_whole else _names(paths, path)
            first = number
            for name in (entry.name for entry in manifest.children(ino) if not entry.is_dir):
                if here is None or name in here:
                    bits[number >> 3] |= 1 << (number & 7)
                number += 1
                if number % _PACE_FILES == 0:
                    time.sleep(_PACE_SECONDS)
            if ended():
                break
            folders += [(path, number - first)] if number > first else []
        return WarmSnapshot(encode(folders, bytes(bits)), is_whole)


def _folders(manifest: Manifest) -> Iterator[tuple[str, int]]:
    yield "", ROOT_INO
    for path, entry in manifest.folders():
        yield path.decode(), entry.ino


def _names(paths: VersionPaths, folder: str) -> Collection[bytes]:
    """Return the names of what is whole in a folder; the tree is another user's, so no link is followed."""
    try:
        opened = open_beneath(paths.root, paths.tree / folder if folder else paths.tree, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # nothing of it is here yet
        return ()
    try:
        with os.scandir(opened) as entries:
            return {os.fsencode(entry.name) for entry in entries}
    finally:
        os.close(opened)


def write_beneath(root: Path, folder: str, name: str, content: bytes) -> None:
    """Put a file into a pod's folder below ``root``, in one step. Blocks. Raises OSError.

    The listener may write there as well: no link of its own is followed.
    """
    opened = open_beneath(root, root / folder, os.O_RDONLY | os.O_DIRECTORY)
    fresh = f"{name}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=opened)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o644, dir_fd=opened), "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # whoever the pod runs as reads it
            file.write(content)
        os.rename(fresh, name, src_dir_fd=opened, dst_dir_fd=opened)
    finally:
        os.close(opened)

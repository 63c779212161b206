"""The warm files of a version on this node, from its manifest and the folders of its tree, in a thread."""

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.linux.beneath import open_beneath
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import ROOT_INO, Manifest

MOST_BYTES = 4 * 1024**2  # of a file; a bit for each of 1.3 million files is 160 KB, and the rest are folder names
_SUFFIX, _MOST_NAME = ".warm", 200


def file_name(dataset: str) -> str | None:
    """Return the file name for a Dataset; None if the Dataset's name cannot be a file name."""
    return dataset + _SUFFIX if dataset and len(dataset) <= _MOST_NAME and "/" not in dataset else None


def encode(folders: Iterable[tuple[str, int]], bits: bytes) -> bytes:
    """Encode ``folders`` with the number of files in each, and a bit for each of those files in order.

    Empty if the result is too large.
    """
    header = json.dumps({"v": 1, "folders": list(folders)}, ensure_ascii=False, separators=(",", ":")).encode()
    return header + b"\n" + bits if len(header) + len(bits) < MOST_BYTES else b""


# Pauses for the agent's event loop, as for layouts.
_PACE_FILES, _PACE_SECONDS = 4096, 0.02


class WarmSnapshot(NamedTuple):
    """The warm files at one time: the file for pods, empty if too large; and whether all files are warm."""

    content: bytes
    is_whole: bool


def read_snapshot(paths: VersionPaths, *, ended: Callable[[], bool]) -> WarmSnapshot:
    """Scan a whole version. Blocks, with pauses. Raises CacheError and OSError."""
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
    """Return the names of complete files in a folder. Another user owns the tree, so no link is followed."""
    try:
        opened = open_beneath(paths.root, paths.tree / folder if folder else paths.tree, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # no file of it is here yet
        return ()
    try:
        with os.scandir(opened) as entries:
            return {os.fsencode(entry.name) for entry in entries}
    finally:
        os.close(opened)


def write_beneath(root: Path, folder: str, name: str, content: bytes) -> None:
    """Write a file into a pod's folder below ``root``, atomically. Blocks. Raises OSError.

    The listener may also write there, so links are not followed.
    """
    opened = open_beneath(root, root / folder, os.O_RDONLY | os.O_DIRECTORY)
    fresh = f"{name}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=opened)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o644, dir_fd=opened), "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # any user of the pod can read it
            file.write(content)
        os.rename(fresh, name, src_dir_fd=opened, dst_dir_fd=opened)
    finally:
        os.close(opened)

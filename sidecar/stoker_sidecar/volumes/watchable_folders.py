"""Which folders of a version are watched for opened files: all, or a sample that says what share it stands for."""

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import ROOT_INO, Entry, Manifest

# Folders of a tree that are marked: each costs 10 us whenever marks are put on, and an inode in the kernel's memory.
MOST_FOLDERS = 1024
# Files that are drawn to estimate the share of a sample: its error is then 3 points.
_DRAWN = 256


@dataclass(frozen=True)
class FolderSample:
    """Folders of a version: inode number of the manifest and path below its root. ``share``: of its files, in them."""

    folders: tuple[tuple[int, bytes], ...]
    share: float


def sample_folders(paths: VersionPaths, most: int = MOST_FOLDERS) -> FolderSample:
    """Choose the folders of a version; the same ones each time. Blocks. Raises CacheError."""
    with closing(Manifest.open(paths.manifest)) as manifest:
        if manifest.info.directories <= most:
            inner = ((entry.ino, path) for path, entry in manifest.folders())
            return FolderSample(((ROOT_INO, b""), *inner), 1.0)
        drawn = _drawn_parents(manifest, random.Random(manifest.info.digest))
        chosen = {next(drawn) for _ in range(most)}
        share = sum(next(drawn) in chosen for _ in range(_DRAWN)) / _DRAWN
        return FolderSample(tuple((ino, manifest.path(ino).encode()) for ino in sorted(chosen)), share)


def _drawn_parents(manifest: Manifest, choose: random.Random) -> Iterator[int]:
    """Yield folders of files that are drawn at random: one with more files more often; the root where there is none."""
    while True:
        entry: Entry | None = manifest.entry(choose.randint(ROOT_INO, manifest.last_ino))
        yield ROOT_INO if entry is None else entry.ino if entry.is_dir else entry.parent

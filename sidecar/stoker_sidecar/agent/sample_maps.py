"""Which files of a version hold the samples of a training job: read from its manifest, in a thread."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

from stoker_orders.sample_index import NoSamplesError
from stoker_orders.sample_map import ListedFile, SampleMap, make_map
from stoker_orders.sampling_plan import SampleFiles
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Manifest

MOST_LIST = 64 * 1024**2  # bytes of a list of files, or of an index: a million lines and more
# As layouts are made: a thread that lets the agent's event loop run.
_PACE_FILES, _PACE_SECONDS = 4096, 0.02


class ListNeeded(NamedTuple):
    """The list of files, or the index, which is not on the disk yet: its inode."""

    ino: int


def read_map(
    paths: VersionPaths, said: SampleFiles, *, ended: Callable[[], bool], rest: float = _PACE_SECONDS
) -> SampleMap | ListNeeded:
    """Find a version's samples. Blocks; ``rest``: seconds now and then. Raises NoSamplesError, CacheError and OSError.

    Once ``ended`` it returns or raises what is of no worth.
    """
    with closing(Manifest.open(paths.manifest)) as manifest:
        listed = b""
        if path := said.described_by:
            entry = manifest.find(path)
            if entry is None or entry.is_dir:
                raise NoSamplesError(f"the Dataset has no file {path!r}, which should list the samples")
            if entry.size > MOST_LIST:
                raise NoSamplesError(f"the list {path!r} is larger than {MOST_LIST >> 20} MiB: list fewer samples")
            try:
                listed = _content(paths, path)
            except FileNotFoundError:
                return ListNeeded(entry.ino)
        return make_map(said, _files(manifest, ended, rest), listed)


def paths_of(paths: VersionPaths, inodes: tuple[int, ...]) -> dict[int, str]:
    """Return the paths of some files. Blocks. Raises CacheError."""
    with closing(Manifest.open(paths.manifest)) as manifest:
        return {ino: manifest.path(ino) for ino in inodes if manifest.entry(ino) is not None}


def _content(paths: VersionPaths, path: str) -> bytes:
    """Read a whole file of the tree. Raises OSError."""
    descriptor = open_file_beneath(paths.root, paths.tree / path)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MOST_LIST)


def _files(manifest: Manifest, ended: Callable[[], bool], rest: float) -> Iterator[ListedFile]:
    for count, (path, entry) in enumerate(manifest.walk(), start=1):
        if not entry.is_dir:
            yield ListedFile(entry.ino, path, entry.size)
        if count % _PACE_FILES == 0:
            if ended():
                return
            time.sleep(rest)

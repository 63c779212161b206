"""Dataset versions on disk for tests of the read side: a real manifest, and files that may be missing."""

import os
import random
from collections.abc import Mapping
from pathlib import Path

from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.recovery.preparation import Preparation
from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.version.packed_copy import CopyOrder, write_copy

MTIME_NS = 1_700_000_000_123_456_789


def small_files(count: int = 60) -> dict[str, bytes]:
    """Make random bytes, of 1 to 4000 times the count, in three folders. They are the same in every run."""
    source = random.Random(3)
    return {f"d{n % 3}/{n}": source.randbytes(1 + n * 4000) for n in range(count)}


def load_version(paths: VersionPaths) -> CachedVersion:
    """Return a prepared version, as the fetcher opens it."""
    version = CachedVersion.unprepared(paths)
    for _ in Preparation(version).run():
        pass
    return version


class VersionFolder:
    """A version folder without fetched files. ``files`` maps a path to the content that readers must see."""

    def __init__(self, folder: Path, files: Mapping[str, bytes], version_id: str = "") -> None:
        self.folder = folder
        self.files = dict(files)
        self.manifest = folder / "manifest.sqlite"
        (folder / "tree").mkdir(parents=True)
        (folder / "parts").mkdir()
        listed = (
            ListedObject(path.encode(), len(data), MTIME_NS, f"etag-of-{path}", version_id)
            for path, data in self.files.items()
        )
        with ManifestBuilder(self.manifest) as builder:
            builder.add(listed)
            self.info = builder.finish()

    def finish(self, path: str) -> None:
        """Put the whole file into tree/, by rename as the fetcher does."""
        final = self.folder / "tree" / path
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / "parts" / "finishing"
        temporary.write_bytes(self.files[path])
        temporary.rename(final)

    def finish_all(self) -> None:
        """Put every file of the version in place, as in a warm dataset."""
        for path in self.files:
            self.finish(path)

    def copy(self, path: str) -> Path:
        """Return the path of a file's compressed copy."""
        return self.folder / "packed" / f"{self.ino(path)}.zst"

    def pack(self, path: str) -> None:
        """Put a compressed copy of the whole file into packed/, regardless of its size."""
        source = self.folder / "parts" / "packing"
        source.write_bytes(self.files[path])
        entry = Entry(self.ino(path), 1, b"", False, len(self.files[path]), MTIME_NS, "", "")
        write_copy(source, self.copy(path), entry, CopyOrder(1, 0.001))

    def put_part(self, path: str, offset: int, length: int) -> str:
        """Put exactly these bytes into a partial file. Return its name relative to the version folder."""
        ino = self.ino(path)
        name = f"parts/{ino}"
        data = self.files[path]
        fd = os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(fd, len(data))
            os.pwrite(fd, data[offset : offset + length], offset)
        finally:
            os.close(fd)
        return name

    def drop(self, path: str) -> None:
        """Drop a file, as if it had never been fetched."""
        (self.folder / "tree" / path).unlink(missing_ok=True)

    def ino(self, path: str) -> int:
        """Return the inode of a path. Raises KeyError."""
        manifest = Manifest.open(self.manifest)
        try:
            entry = manifest.find(path)
        finally:
            manifest.close()
        if entry is None:
            raise KeyError(path)
        return entry.ino

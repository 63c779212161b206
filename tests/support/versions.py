"""Dataset versions on disk for the tests of the read side: a real manifest, and files that are there or not."""

import os
import random
from collections.abc import Mapping
from pathlib import Path

from stoker_sidecar.version.builder import ManifestBuilder
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.version.objects import ListedObject
from stoker_sidecar.version.packed_copy import CopyOrder, write_copy

MTIME_NS = 1_700_000_000_123_456_789


def small_files(count: int = 60) -> dict[str, bytes]:
    """Make random bytes, from 1 to 4000 times the count, in three folders; the same in every run."""
    source = random.Random(3)
    return {f"d{n % 3}/{n}": source.randbytes(1 + n * 4000) for n in range(count)}


class VersionFolder:
    """A version folder with nothing fetched. ``files``: path -> content, the truth that readers must see."""

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
        """Return where the compressed copy of a file lies."""
        return self.folder / "packed" / f"{self.ino(path)}.zst"

    def pack(self, path: str) -> None:
        """Put a compressed copy of the whole file into packed/, however large it becomes."""
        source = self.folder / "parts" / "packing"
        source.write_bytes(self.files[path])
        entry = Entry(self.ino(path), 1, b"", False, len(self.files[path]), MTIME_NS, "", "")
        write_copy(source, self.copy(path), entry, CopyOrder(1, 0.001))

    def put_part(self, path: str, offset: int, length: int) -> str:
        """Put these bytes, and no others, into a partial file; its name relative to the version folder."""
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

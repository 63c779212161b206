"""What a mounted version must show and may refuse: plain dictionaries, and a folder that is its source."""

import errno
import os
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.fetcher.download.parts import chunks_of
from tests.support.byte_reads import Got


class Object(NamedTuple):
    """An object's content and date; ``mtime_ns`` tells two contents apart for the source's ETag."""

    data: bytes
    mtime_ns: int


class SourceFolder:
    """A folder that stands for the store. ``objects``: what is in it now, by path; ``folders``: the empty ones, too."""

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self.folder = folder
        self.objects: dict[str, Object] = {}
        self.folders = {""}
        self._clock = 1_700_000_000_123_456_789
        folder.mkdir(parents=True)
        for path, data in files.items():
            self.write(path, data)

    def write(self, path: str, data: bytes) -> None:
        """Write an object with a date later than anything before."""
        self._clock += 1
        self.put(path, Object(data, self._clock))

    def put(self, path: str, content: Object) -> None:
        """Write an object with exactly this content and date."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.data)
        os.utime(file, ns=(content.mtime_ns, content.mtime_ns))
        self.objects[path] = content
        self.folders |= {"" if str(parent) == "." else str(parent) for parent in Path(path).parents}

    def delete(self, path: str) -> None:
        """Delete an object, and leave its folder, as rm does; no error when it is not there."""
        (self.folder / path).unlink(missing_ok=True)
        self.objects.pop(path, None)


class VersionModel:
    """A version whose ``files`` stay, whatever becomes of the source. Bytes that a reader got stay on this disk."""

    def __init__(self, source: SourceFolder) -> None:
        self._source = source
        self.files = dict(source.objects)
        self.folders = frozenset(source.folders)  # paths, empty folders too; the root is the empty one
        self._here: dict[str, set[int]] = {path: set() for path in self.files}

    def children(self, folder: str) -> list[str]:
        """Return the sorted names in a folder."""
        prefix = f"{folder}/" if folder else ""
        below = (path.removeprefix(prefix) for path in {*self.files, *self.folders} if path.startswith(prefix))
        return sorted({path.split("/")[0] for path in below} - {""})

    def spoilt(self) -> list[str]:
        """Return the paths that the source does not have any more as they were."""
        return [path for path, content in self.files.items() if self._source.objects.get(path) != content]

    def all_is_here(self) -> None:
        """Note that the version was warmed."""
        for path, content in self.files.items():
            self._note(path, 0, len(content.data))

    def check(self, path: str, offset: int, length: int, got: Got, also: frozenset[int] = frozenset()) -> None:
        """Raise AssertionError unless these are right bytes, whole or ended by an errno that is due.

        ``also``: allowed errnos.
        """
        wanted = self.files[path].data[offset : offset + length]
        assert got.data == wanted[: len(got.data)], f"wrong bytes of {path} at {offset}"
        self._note(path, offset, len(got.data))
        if got.errno:
            rest = offset + len(got.data)
            allowed = self._refusals(path, rest, offset + len(wanted) - rest) | also
            assert got.errno in allowed, f"{path}: {errno.errorcode[got.errno]}, not one of {allowed}"
        else:
            assert len(got.data) == len(wanted), f"{path} ends early"

    def _refusals(self, path: str, offset: int, length: int) -> frozenset[int]:
        """Return the errnos of bytes that the source cannot give any more. A map's reader is told EFAULT instead."""
        content = self.files[path]
        now = self._source.objects.get(path)
        missing = set(chunks_of(offset, length, len(content.data))) - self._here[path]
        if now == content or not missing:
            return frozenset()
        return frozenset({errno.ENOENT if now is None else errno.ESTALE, errno.EFAULT})

    def _note(self, path: str, offset: int, length: int) -> None:
        self._here[path].update(chunks_of(offset, length, len(self.files[path].data)))

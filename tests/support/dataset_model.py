"""The allowed content and errors of a mounted version: plain dictionaries, and a folder as its source."""

import errno
import os
from pathlib import Path
from typing import NamedTuple

from stoker_sidecar.fetcher.ondisk.parts import chunks_of
from tests.support.byte_reads import Got


class Object(NamedTuple):
    """An object's content and date. ``mtime_ns`` distinguishes two contents for the source's ETag."""

    data: bytes
    mtime_ns: int


class SourceFolder:
    """A folder as the store. ``objects`` is its current content by path, and ``folders`` includes empty ones."""

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self.folder = folder
        self.objects: dict[str, Object] = {}
        self.folders = {""}
        self._clock = 1_700_000_000_123_456_789
        folder.mkdir(parents=True)
        for path, data in files.items():
            self.write(path, data)

    def write(self, path: str, data: bytes) -> None:
        """Write an object with a date later than all before."""
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
        """Delete an object but not its folder, like rm. A missing object is not an error."""
        (self.folder / path).unlink(missing_ok=True)
        self.objects.pop(path, None)


class VersionModel:
    """A version with fixed ``files``, independent of the source. Bytes that a reader got stay on this disk."""

    def __init__(self, source: SourceFolder) -> None:
        self._source = source
        self.files = dict(source.objects)
        self.folders = frozenset(source.folders)  # paths, including empty folders; the root is the empty one
        self._here: dict[str, set[int]] = {path: set() for path in self.files}

    def children(self, folder: str) -> list[str]:
        """Return the sorted names in a folder."""
        prefix = f"{folder}/" if folder else ""
        below = (path.removeprefix(prefix) for path in {*self.files, *self.folders} if path.startswith(prefix))
        return sorted({path.split("/")[0] for path in below} - {""})

    def spoilt(self) -> list[str]:
        """Return the paths whose objects in the source were deleted or changed."""
        return [path for path, content in self.files.items() if self._source.objects.get(path) != content]

    def all_is_here(self) -> None:
        """Record that the version was warmed."""
        for path, content in self.files.items():
            self._note(path, 0, len(content.data))

    def check(self, path: str, offset: int, length: int, got: Got, also: frozenset[int] = frozenset()) -> None:
        """Raise AssertionError unless these are the right bytes, complete or ended by an expected errno.

        ``also`` has additional allowed errnos.
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
        """Return the errnos for bytes that the source does not have any more. A reader of a map gets EFAULT instead."""
        content = self.files[path]
        now = self._source.objects.get(path)
        missing = set(chunks_of(offset, length, len(content.data))) - self._here[path]
        if now == content or not missing:
            return frozenset()
        return frozenset({errno.ENOENT if now is None else errno.ESTALE, errno.EFAULT})

    def _note(self, path: str, offset: int, length: int) -> None:
        self._here[path].update(chunks_of(offset, length, len(self.files[path].data)))

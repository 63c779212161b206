"""One version of a dataset on this disk: which of its files are here."""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from stoker_sidecar.errors import CacheError
from stoker_sidecar.fetcher.ondisk.file_states import FileStates, State
from stoker_sidecar.fetcher.ondisk.parts import Arrivals, PartFile
from stoker_sidecar.fetcher.ondisk.path_selection import ChosenFiles
from stoker_sidecar.fetcher.ondisk.sync_point import SyncPoint, sync_tree
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.store.core.object_checksum import EtagTrust
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry, Manifest


@dataclass
class CachedVersion:
    """A version on this disk: its manifest, the state of each file, and partial files.

    ``Preparation`` fills it from the disk. One event loop uses it and changes its state. Blocking methods say so and
    change only the disk.
    """

    paths: VersionPaths
    manifest: Manifest
    states: FileStates
    trust: EtagTrust
    parts: dict[int, PartFile] = field(default_factory=dict)
    warm_files: int = 0
    warm_bytes: int = 0
    linked_files: int = 0
    packed: dict[int, int] = field(default_factory=dict)  # inode -> bytes of its compressed copy
    packed_bytes: int = 0  # of all copies
    unpacked_bytes: int = 0  # of the files that they are of
    reserved_bytes: int = 0  # of files on their way into the tree
    shared_bytes: int = 0  # of files shared with another version
    complete: bool = False
    lacks_folders: bool = False  # too few inodes: a folder is made for its first file
    waiting_readers: int = 0  # that wait for bytes of it
    chosen: ChosenFiles = field(default_factory=ChosenFiles)  # the files to warm
    repairing: set[int] = field(default_factory=set)  # inodes in repair; not evicted until readers have their bytes
    arrivals: Arrivals = field(default_factory=Arrivals)
    distrusted: list[int] = field(default_factory=list)  # inodes of files that ``prepare`` did not believe and deleted

    @classmethod
    def unprepared(cls, paths: VersionPaths) -> Self:
        """Open the manifest; ``Preparation`` comes next. Blocks. Raises ManifestInvalid or CacheDiskFailed."""
        manifest = Manifest.open(paths.manifest)
        version = cls(paths, manifest, FileStates(manifest.last_ino + 1), EtagTrust(manifest.info.files))
        version.states[0] = State.FOLDER
        return version

    @property
    def kept_bytes(self) -> int:
        """Bytes that count: whole files and compressed copies, and the full size of files on their way."""
        return self.warm_bytes + self.packed_bytes + self.reserved_bytes - self.shared_bytes

    @property
    def here_files(self) -> int:
        """Files that can be read without the source, compressed ones too."""
        return self.warm_files + len(self.packed)

    @property
    def here_bytes(self) -> int:
        """Bytes of whole files and of files with copies, uncompressed."""
        return self.warm_bytes + self.unpacked_bytes

    @property
    def arrived_bytes(self) -> int:
        """Bytes of files that stay, whether complete and proven or partial."""
        kept = (part for part in self.parts.values() if part.kept)
        return self.here_bytes + sum(part.bytes_here + part.bytes_held for part in kept)

    def add_part(self, part: PartFile) -> None:
        """Add the part that receives the file's chunks from now on."""
        self.parts[part.ino] = part
        self.reserved_bytes += part.size if part.kept else 0

    def remove_part(self, part: PartFile) -> None:
        """Forget a part that is dropped or has moved into the tree. Idempotent."""
        if self.parts.get(part.ino) is part:
            del self.parts[part.ino]
            self.reserved_bytes -= part.size if part.kept else 0

    def mark_here(self, entry: Entry) -> None:
        """Note that the file is in the tree."""
        if self.states[entry.ino] != State.HERE:
            self.states[entry.ino] = State.HERE
            self.warm_files += 1
            self.warm_bytes += entry.size
            self.chosen.count(entry, 1)
            self.forget_copy(entry)

    def mark_packed(self, entry: Entry, size: int) -> None:
        """Note that there is a compressed copy of ``size`` bytes of a file that is not in the tree."""
        self.forget_copy(entry)
        self.states[entry.ino] = State.PACKED
        self.packed[entry.ino] = size
        self.packed_bytes += size
        self.unpacked_bytes += entry.size
        self.chosen.count(entry, 1)

    def drop_copy(self, ino: int) -> None:
        """Delete the compressed copy of a file, if there is one. Blocks for a moment.

        Raises DiskFull or CacheDiskFailed.
        """
        with disk_errors("a compressed copy"):
            Path(self.paths.packed_copy(ino)).unlink(missing_ok=True)

    def unpack(self) -> None:
        """Mark all files with compressed copies for a fetch into the tree. Each copy is read until then."""
        self.states.forget(State.PACKED)

    def forget_copy(self, entry: Entry) -> None:
        """Note that there is no compressed copy of a file; it is missing, unless it is in the tree."""
        size = self.packed.pop(entry.ino, None)
        if size is not None:
            self.packed_bytes -= size
            self.unpacked_bytes -= entry.size
            self.chosen.count(entry, -1)
        if self.states[entry.ino] == State.PACKED:
            self.states[entry.ino] = State.MISSING

    def lose(self, entry: Entry) -> None:
        """Note that the file left the tree or is damaged, so that it is fetched again.

        A damaged file stays until a rename replaces it, so that its readers keep it open. Call ``unmark`` before.
        """
        self.suspect(entry)
        self.complete = False

    def unmark(self, entry: Entry | None = None) -> None:
        """Remove the disk's markers of a whole and synced version. Make the folder of ``entry`` if it is gone.

        Blocks for a moment. Raises DiskFull or CacheDiskFailed.
        """
        with disk_errors("the version"):
            self.paths.complete.unlink(missing_ok=True)
            self.paths.synced.unlink(missing_ok=True)
            if entry is not None:
                self.tree_path(entry).parent.mkdir(parents=True, exist_ok=True)

    def suspect(self, entry: Entry) -> None:
        """Mark a damaged file for another fetch. It stays until its successor replaces it."""
        if self.states[entry.ino] == State.HERE:
            self.states[entry.ino] = State.MISSING
            self.warm_files -= 1
            self.warm_bytes -= entry.size
            self.chosen.count(entry, -1)

    def give_up(self, ino: int, take_out: Callable[[Path], None]) -> None:
        """Remove a file from the tree, if it is there. From now on it is read through.

        Raises the errors of ``take_out``, and then the file stays.
        """
        entry = self.manifest.entry(ino)
        if entry is not None and self.states[ino] == State.HERE and ino not in self.repairing:
            take_out(self.tree_path(entry))
            self.suspect(entry)
            self.states[ino] = State.UNKEPT

    def want(self, ino: int) -> None:
        """Note that a file that did not fit may do so now."""
        if self.states[ino] == State.UNKEPT:
            self.states[ino] = State.MISSING

    def take_away(self, entry: Entry) -> None:
        """Delete a damaged file without a good successor. Blocks. Raises DiskFull or CacheDiskFailed."""
        with disk_errors("the version"):
            self.paths.complete.unlink(missing_ok=True)
            self.tree_path(entry).unlink(missing_ok=True)

    def make_folder(self, entry: Entry) -> bool:
        """Make the folder of a file if the version lacks folders. Return False if that fails. Blocks for a moment."""
        if self.lacks_folders:
            try:
                self.tree_path(entry).parent.mkdir(parents=True, exist_ok=True)
            except OSError:
                return False
        return True

    def tree_path(self, entry: Entry) -> Path:
        """Return the path of the whole file."""
        return self.paths.tree / self.manifest.path_of(entry)

    def finish(self) -> None:
        """Date the folders and set the marker, once every file is here. Blocks. Raises DiskFull or CacheDiskFailed.

        Set ``complete`` and call ``secure`` afterwards. Native mounts need not wait for ``secure``.
        """
        with disk_errors("the version"), closing(Manifest.open(self.paths.manifest)) as manifest:
            for path, entry in manifest.folders():
                folder = os.path.join(os.fsencode(self.paths.tree), path)  # noqa: PTH118 -- bytes
                if self.lacks_folders:
                    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 -- bytes
                os.utime(folder, ns=(entry.mtime_ns, entry.mtime_ns))
            self.paths.complete.touch()

    def secure(self) -> None:
        """Fsync a complete version unless that is done. Blocks.

        Raises DiskFull or CacheDiskFailed. The version is then unmarked, for the caller to note, because the disk may
        have lost any file.
        """
        if SyncPoint.read(self.paths).is_whole(self.manifest.info.files):
            return
        try:
            self.sync()
        except CacheError:
            with suppress(OSError):
                self.paths.complete.unlink(missing_ok=True)
            raise

    def sync(self) -> None:
        """Fsync all files that are in the tree now.

        Blocks. Raises DiskFull or CacheDiskFailed.
        """
        with disk_errors("the version"):
            sync_tree(self.paths, self.states.whole_files())

    def close(self) -> None:
        """Close the manifest. Idempotent."""
        self.manifest.close()

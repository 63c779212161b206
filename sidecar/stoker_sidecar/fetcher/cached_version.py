"""One version of a dataset on this disk: which of its files are here."""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from shutil import copyfile
from typing import Self

from stoker_sidecar.errors import CacheError
from stoker_sidecar.fetcher.core.chosen_files import ChosenFiles
from stoker_sidecar.fetcher.download.arrivals import Arrivals
from stoker_sidecar.fetcher.download.parts import PartFile, chunk_count, kept_parts, temporary_name
from stoker_sidecar.linux.files import disk_errors, sync_file_system
from stoker_sidecar.store.core.object_checksum import EtagTrust
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.version.packed_copy import copies_in
from stoker_sidecar.worker.files import is_intact, publish, survived


class State(IntEnum):
    """What is known of one inode; a byte each, so that a million files take a megabyte."""

    MISSING = 0
    HERE = 1
    FAILED = 2  # warming could not fetch it and comes back to it when the others are done
    UNKEPT = 3  # did not fit quota or disk: read through
    FOLDER = 4
    PACKED = 5  # there is a compressed copy of it, and none in the tree


_HERE_ALONE = bytes(int(state == State.HERE) for state in range(256))


@dataclass
class CachedVersion:
    """A version on this disk: its manifest, the state of each file, and the files in the making.

    ``load`` makes one. One event loop uses it, and alone changes its state; what blocks says so, and changes the disk
    alone.
    """

    paths: VersionPaths
    manifest: Manifest
    states: bytearray
    trust: EtagTrust
    parts: dict[int, PartFile] = field(default_factory=dict)
    warm_files: int = 0
    warm_bytes: int = 0
    linked_files: int = 0
    packed: dict[int, int] = field(default_factory=dict)  # inode -> bytes of its compressed copy
    packed_bytes: int = 0  # of all copies
    unpacked_bytes: int = 0  # of the files that they are of
    reserved_bytes: int = 0  # of files on their way into the tree
    shared_bytes: int = 0  # of files that another version holds too
    complete: bool = False
    waiting_readers: int = 0  # that wait for bytes of it
    chosen: ChosenFiles = field(default_factory=ChosenFiles)  # what of it is warmed
    repairing: set[int] = field(default_factory=set)  # inodes that come again, and stay until readers have their bytes
    arrivals: Arrivals = field(default_factory=Arrivals)

    @classmethod
    def load(cls, paths: VersionPaths, donors: Sequence["CachedVersion"] = ()) -> Self:
        """Find what is on the disk; the first time, take over unchanged files from ``donors``. Blocks for long.

        Raises ManifestInvalid, DiskFull or CacheDiskFailed.
        """
        manifest = Manifest.open(paths.manifest)
        version = cls(paths, manifest, bytearray(manifest.last_ino + 1), EtagTrust(manifest.info.files))
        version.states[0] = State.FOLDER
        with disk_errors(f"version {manifest.info.digest[:12]}"):
            version._prepare(donors)
        return version

    @property
    def kept_bytes(self) -> int:
        """Bytes that count: whole files and compressed copies, and all of those that are being filled or fetched."""
        return self.warm_bytes + self.packed_bytes + self.reserved_bytes - self.shared_bytes

    @property
    def here_files(self) -> int:
        """Files that can be read without the source, compressed ones too."""
        return self.warm_files + len(self.packed)

    @property
    def here_bytes(self) -> int:
        """Bytes of those files, not of their copies."""
        return self.warm_bytes + self.unpacked_bytes

    @property
    def arrived_bytes(self) -> int:
        """Bytes of files that stay, whole or not yet, proven or not yet."""
        kept = (part for part in self.parts.values() if part.kept)
        return self.here_bytes + sum(part.bytes_here + part.bytes_held for part in kept)

    def add_part(self, part: PartFile) -> None:
        """From now on, this is where the file's chunks go."""
        self.parts[part.ino] = part
        self.reserved_bytes += part.size if part.kept else 0

    def remove_part(self, part: PartFile) -> None:
        """Forget a part that is dropped or has moved into the tree. Idempotent."""
        if self.parts.get(part.ino) is part:
            del self.parts[part.ino]
            self.reserved_bytes -= part.size if part.kept else 0

    def missing(self, after: int = 0) -> int:
        """Return the next inode behind ``after`` that warming should fetch; -1 when there is none."""
        return self.states.find(State.MISSING, after + 1)

    def is_missing(self, ino: int) -> bool:
        """Tell whether warming should fetch it."""
        return self.states[ino] == State.MISSING

    def count(self, state: State) -> int:
        """Count the inodes in this state."""
        return self.states.count(state)

    def are(self, state: State, among: bytes) -> bool:
        """Tell whether one of the inodes that are marked by a 1 in ``among``, a byte each, is in this state."""
        marks = self.states.translate(bytes(int(one == state) for one in range(256)))
        return int.from_bytes(marks) & int.from_bytes(among) != 0

    def whole_files(self) -> bytes:
        """Return a byte an inode: 1 where the file is in the tree."""
        return bytes(self.states.translate(_HERE_ALONE))

    def here_among(self, marks: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return marks of inodes, a byte each, less those whose files are not in the tree."""
        here = int.from_bytes(self.states.translate(_HERE_ALONE))
        return tuple((int.from_bytes(mark) & here).to_bytes(len(self.states)) for mark in marks)

    def forget(self, state: State) -> None:
        """All inodes of this state are missing again: the next pass of warming tries them."""
        self.states = self.states.replace(bytes([state]), bytes([State.MISSING]))

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
        """Have all files with compressed copies fetched into the tree; each copy is read until then."""
        self.forget(State.PACKED)

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
        """Note that the file is not in the tree any more, or not as it should be: it is to be fetched again.

        A damaged one stays until its successor takes its place by rename: whoever has it open keeps it. ``unmark``
        comes before.
        """
        self.suspect(entry)
        self.complete = False

    def unmark(self, entry: Entry | None = None) -> None:
        """Have the disk say that the version is not whole and synced; make the folder of ``entry`` where it is gone.

        Blocks for a moment. Raises DiskFull or CacheDiskFailed.
        """
        with disk_errors("the version"):
            self.paths.complete.unlink(missing_ok=True)
            self.paths.synced.unlink(missing_ok=True)
            if entry is not None:
                self.tree_path(entry).parent.mkdir(parents=True, exist_ok=True)

    def suspect(self, entry: Entry) -> None:
        """Have a damaged file fetched once more; it stays until its successor takes its place."""
        if self.states[entry.ino] == State.HERE:
            self.states[entry.ino] = State.MISSING
            self.warm_files -= 1
            self.warm_bytes -= entry.size
            self.chosen.count(entry, -1)

    def give_up(self, ino: int, take_out: Callable[[Path], None]) -> None:
        """Have a file taken out of the tree, if it is there: from now on it is read through.

        Raises what ``take_out`` raises, and then it stays.
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
        """Take away a damaged file for which no better one came. Blocks. Raises DiskFull or CacheDiskFailed."""
        with disk_errors("the version"):
            self.paths.complete.unlink(missing_ok=True)
            self.tree_path(entry).unlink(missing_ok=True)

    def tree_path(self, entry: Entry) -> Path:
        """Where the whole file lies."""
        return self.paths.tree / self.manifest.path_of(entry)

    def finish(self) -> None:
        """Date the folders and set the marker, once every file is here. Blocks. Raises DiskFull or CacheDiskFailed.

        ``complete`` and ``secure`` are to follow: native mounts need not wait for the latter.
        """
        with disk_errors("the version"), closing(Manifest.open(self.paths.manifest)) as manifest:
            for path, entry in manifest.folders():
                os.utime(os.path.join(os.fsencode(self.paths.tree), path), ns=(entry.mtime_ns, entry.mtime_ns))  # noqa: PTH118 -- bytes
            self.paths.complete.touch()

    def secure(self) -> None:
        """Have a whole version survive a power cut, unless it does already. Blocks.

        Raises DiskFull or CacheDiskFailed; the version then is no longer marked, for the caller to note: what the disk
        lost is not known.
        """
        if self._synced().count(1) == self.manifest.info.files:
            return
        try:
            self.sync()
        except CacheError:
            with suppress(OSError):
                self.paths.complete.unlink(missing_ok=True)
            raise

    def sync(self) -> None:
        """Have all files that are in the tree by now survive a power cut.

        Blocks. Raises DiskFull or CacheDiskFailed.
        """
        with disk_errors("the version"):
            started = self.paths.folder / "syncing"
            # Named before, so that what arrives meanwhile does not count; by inode, since clocks are put back.
            started.write_bytes(zlib.compress(self.whole_files(), 1))
            sync_file_system(self.paths.tree)
            started.rename(self.paths.synced)

    def close(self) -> None:
        """Close the manifest. Idempotent."""
        self.manifest.close()

    def _prepare(self, donors: Sequence["CachedVersion"]) -> None:
        fresh = not self.paths.tree.exists()
        if fresh:
            for marker in (self.paths.complete, self.paths.synced):
                marker.unlink(missing_ok=True)  # someone deleted the tree
        self.paths.parts.mkdir(exist_ok=True)
        self.paths.tree.mkdir(exist_ok=True)
        self._make_folders()
        if self.paths.complete.exists() and self._synced().count(1) == self.manifest.info.files:
            self._all_here()
        elif not fresh:
            self._scan()
            self._believe_marker()
        self._find_copies()
        self.paths.doubtful.unlink(missing_ok=True)
        self._link(donors)
        self._resume_parts()

    def _make_folders(self) -> None:
        base = os.fsencode(self.paths.tree)
        self.states[1] = State.FOLDER
        for path, entry in self.manifest.folders():
            self.states[entry.ino] = State.FOLDER
            with suppress(FileExistsError):
                os.mkdir(os.path.join(base, path), 0o755)  # noqa: PTH102, PTH118 -- bytes

    def _all_here(self) -> None:
        self.states = self.states.replace(bytes([State.MISSING]), bytes([State.HERE]))
        self.warm_files, self.warm_bytes, self.complete = self.manifest.info.files, self.manifest.info.bytes, True

    def _believe_marker(self) -> None:
        """Set by a process that ended before its sync did: it counts if nothing is missing."""
        if self.warm_files == self.manifest.info.files:
            self.complete = self.paths.complete.exists()
        else:
            self.paths.complete.unlink(missing_ok=True)

    def _scan(self) -> None:
        """After a new start of the machine, files that may not have reached the disk whole are proved or left out."""
        doubtful, limit, synced = self.paths.doubtful.exists(), _date(self.paths.synced), self._synced()
        for path, entry in self._files():
            known = synced[entry.ino : entry.ino + 1] == b"\1"
            if is_intact(path, entry) and (not doubtful or survived(path, entry, limit if known else 0)):
                self.mark_here(entry)

    def _find_copies(self) -> None:
        """Take up compressed copies of files that are not in the tree; delete others."""
        found = copies_in(self.paths.packed)
        for _, entry in self.manifest.walk() if found else ():
            if (copy := found.get(entry.ino)) is None or self.states[entry.ino] != State.MISSING:
                continue
            if copy.st_size and copy.st_mtime_ns == entry.mtime_ns:
                self.mark_packed(entry, copy.st_size)
        for ino in found.keys() - self.packed.keys():
            self.drop_copy(ino)

    def _synced(self) -> bytes:
        """Return a byte an inode: 1 for those that the last sync brought onto the disk."""
        try:
            return zlib.decompress(self.paths.synced.read_bytes())
        except (OSError, zlib.error):  # there was none, or it is an older release's
            return b""

    def _files(self) -> Iterator[tuple[str, Entry]]:
        base = str(self.paths.tree)
        return ((f"{base}/{path.decode()}", entry) for path, entry in self.manifest.walk() if not entry.is_dir)

    def _link(self, donors: Sequence["CachedVersion"]) -> None:
        if self.paths.linked.exists():
            files, shared = self.paths.linked.read_text().split()
            self.linked_files, self.shared_bytes = int(files), int(shared)
            return
        for donor in donors if not self.complete else ():
            # Its own connection: the donor's belongs to the event loop's thread.
            with closing(Manifest.open(donor.paths.manifest)) as manifest:
                self._link_from(donor, manifest)
        self.paths.linked.write_text(f"{self.linked_files} {self.shared_bytes}")

    def _link_from(self, donor: "CachedVersion", theirs: Manifest) -> None:
        for path, entry in self.manifest.walk():
            if self.states[entry.ino] != State.MISSING:
                continue
            other = theirs.find(path.decode())
            if other is not None and donor.states[other.ino] == State.HERE and _same(entry, other):
                with suppress(FileNotFoundError):  # someone deleted the donor's file: this one is fetched
                    self._adopt(donor.paths.tree, path.decode(), entry, linkable=_same_date(entry, other))

    def _adopt(self, tree: Path, path: str, entry: Entry, *, linkable: bool) -> None:
        source, target = tree / path, self.paths.tree / path
        if linkable:
            os.link(source, target)
            self.shared_bytes += entry.size
        else:  # a link would change the date under the pods that read the other version
            temporary = Path(temporary_name(str(self.paths.parts), entry.ino))
            copyfile(source, temporary)
            publish(str(temporary), str(target), entry)
        self.linked_files += 1
        self.mark_here(entry)

    def _resume_parts(self) -> None:
        for ino, part in kept_parts(self.paths.parts).items():
            entry = self.manifest.entry(ino) if ino < len(self.states) else None
            if entry is None or self.states[ino] != State.MISSING:
                part.drop()
                continue
            wanted = chunk_count(entry.size)
            part.size, part.chunks = entry.size, part.chunks[:wanted].ljust(wanted, b"\0")
            self.add_part(part)


def _date(marker: Path) -> int:
    """Nanoseconds since 1970; 0 when it is not there."""
    try:
        return marker.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _same(entry: Entry, other: Entry) -> bool:
    # Not the version id: the same bytes put again have another one, and listings do not always get them.
    return (entry.size, entry.etag) == (other.size, other.etag)


def _same_date(entry: Entry, other: Entry) -> bool:
    return entry.mtime_ns == other.mtime_ns

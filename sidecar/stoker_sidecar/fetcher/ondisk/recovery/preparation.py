"""Finds the files of a version on the disk when it is opened."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from shutil import copyfile

from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.ondisk.parts import chunk_count, kept_parts, temporary_name
from stoker_sidecar.fetcher.ondisk.recovery.quarantine import check_tree, release, set_aside
from stoker_sidecar.fetcher.ondisk.sync_point import SyncPoint
from stoker_sidecar.linux.files import disk_errors, is_there
from stoker_sidecar.store.core.object_checksum import is_content_hash
from stoker_sidecar.version.manifest import Entry, Manifest
from stoker_sidecar.version.packed_copy import copies_in
from stoker_sidecar.worker.files import publish


class Preparation:
    """Prepares a version; the first time, it takes over unchanged files from ``donors``.

    ``inodes``: the number of further files on the disk. Folders take at most half of them.
    """

    def __init__(self, version: CachedVersion, donors: Sequence[CachedVersion] = (), inodes: int = sys.maxsize) -> None:
        self._version, self._donors, self._inodes = version, donors, inodes
        self._paths, self._manifest = version.paths, version.manifest

    def run(self) -> Iterator[None]:
        """Find the files on the disk, in steps.

        Blocks: each step of a check takes some milliseconds. Raises DiskFull or CacheDiskFailed.
        """
        with disk_errors(f"version {self._manifest.info.digest[:12]}"):
            yield from self._run()

    def _run(self) -> Iterator[None]:
        if in_doubt := self._paths.doubtful.exists() or self._paths.quarantine.exists():
            set_aside(self._paths)
        tree = self._paths.quarantine if in_doubt else self._paths.tree
        fresh = not is_there(tree)
        if fresh:
            for marker in (self._paths.complete, self._paths.synced):
                marker.unlink(missing_ok=True)  # someone deleted the tree
        elif self._is_whole():
            self._all_here()
        else:
            yield from self._check(tree, in_doubt=in_doubt)
        release(self._paths)
        self._paths.parts.mkdir(exist_ok=True)
        self._paths.tree.mkdir(exist_ok=True)
        self._make_folders()
        self._find_copies()
        self._paths.doubtful.unlink(missing_ok=True)
        self._link()
        self._resume_parts()

    def _is_whole(self) -> bool:
        return self._paths.complete.exists() and SyncPoint.read(self._paths).is_whole(self._manifest.info.files)

    def _make_folders(self) -> None:
        base = os.fsencode(self._paths.tree)
        self._version.states[1] = State.FOLDER
        self._version.lacks_folders = self._has_more_folders_than(self._inodes // 2)
        for path, entry in self._manifest.folders():
            self._version.states[entry.ino] = State.FOLDER
            if self._version.lacks_folders:
                continue
            with suppress(FileExistsError):
                os.mkdir(os.path.join(base, path), 0o755)  # noqa: PTH102, PTH118 -- bytes

    def _has_more_folders_than(self, count: int) -> bool:
        if self._manifest.last_ino <= count:
            return False
        return next(islice(self._manifest.folders(), count, None), None) is not None

    def _all_here(self) -> None:
        self._version.states.change(State.MISSING, State.HERE)
        version, info = self._version, self._manifest.info
        version.warm_files, version.warm_bytes, version.complete = info.files, info.bytes, True

    def _believe_marker(self) -> None:
        """Accept the marker of a process that ended before its sync if no file is missing."""
        if self._version.warm_files == self._manifest.info.files:
            self._version.complete = self._paths.complete.exists()
        else:
            self._paths.complete.unlink(missing_ok=True)

    def _check(self, tree: Path, *, in_doubt: bool) -> Iterator[None]:
        """Count the trusted files. Delete other files and their entries in the sync point."""
        sync = SyncPoint.read(self._paths)
        self._version.distrusted = yield from check_tree(
            tree, self._manifest, sync, self._version.mark_here, in_doubt=in_doubt
        )
        self._believe_marker()
        sync.narrow(self._paths, self._version.states.whole_files())

    def _find_copies(self) -> None:
        """Find compressed copies of files that are not in the tree. Delete other copies."""
        found = copies_in(self._paths.packed)
        for _, entry in self._manifest.walk() if found else ():
            if (copy := found.get(entry.ino)) is None or self._version.states[entry.ino] != State.MISSING:
                continue
            if copy.st_size and copy.st_mtime_ns == entry.mtime_ns:
                self._version.mark_packed(entry, copy.st_size)
        for ino in found.keys() - self._version.packed.keys():
            self._version.drop_copy(ino)

    def _link(self) -> None:
        if self._paths.linked.exists():
            with suppress(ValueError):  # a power cut may leave it empty
                files, shared = map(int, self._paths.linked.read_text().split())
                self._version.linked_files, self._version.shared_bytes = files, shared
            return
        for donor in self._donors if not self._version.complete else ():
            # Its own connection: the donor's belongs to the event loop's thread.
            with closing(Manifest.open(donor.paths.manifest)) as manifest:
                self._link_from(donor, manifest)
        self._paths.linked.write_text(f"{self._version.linked_files} {self._version.shared_bytes}")

    def _link_from(self, donor: CachedVersion, theirs: Manifest) -> None:
        for path, entry in self._manifest.walk():
            if self._version.states[entry.ino] != State.MISSING:
                continue
            other = theirs.find(path.decode())
            if other is not None and donor.states[other.ino] == State.HERE and _same(entry, other):
                with suppress(FileNotFoundError):  # someone deleted the donor's file: this one is fetched
                    self._adopt(donor.paths.tree, path.decode(), entry, linkable=_same_date(entry, other))

    def _adopt(self, tree: Path, path: str, entry: Entry, *, linkable: bool) -> None:
        source, target = tree / path, self._paths.tree / path
        if linkable:
            os.link(source, target)
            self._version.shared_bytes += entry.size
        else:  # a link would change the date under readers of the second version
            temporary = Path(temporary_name(str(self._paths.parts), entry.ino))
            copyfile(source, temporary)
            publish(str(temporary), str(target), entry)
        self._version.linked_files += 1
        self._version.mark_here(entry)

    def _resume_parts(self) -> None:
        for ino, part in kept_parts(self._paths.parts).items():
            entry = self._manifest.entry(ino) if ino < len(self._version.states) else None
            if entry is None or self._version.states[ino] != State.MISSING:
                part.drop()
                continue
            wanted = chunk_count(entry.size)
            part.size, part.chunks = entry.size, part.chunks[:wanted].ljust(wanted, b"\0")
            self._version.add_part(part)


def _same(entry: Entry, other: Entry) -> bool:
    # The same bytes get a new version id when they are uploaded again. An ETag that is no hash counts only within one
    # source.
    same_source = is_content_hash(entry.etag) or (entry.version_id == other.version_id != "")
    return same_source and (entry.size, entry.etag) == (other.size, other.etag)


def _same_date(entry: Entry, other: Entry) -> bool:
    return entry.mtime_ns == other.mtime_ns

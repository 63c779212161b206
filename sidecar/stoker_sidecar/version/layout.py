"""Paths on the cache disk: folders, and the fetcher's incomplete files. Agents send pieces of these to other nodes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import NotConfigured

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class VersionPaths:
    """The paths of one version.

    ``tree`` holds complete files, ``parts`` files that are being fetched or read through.
    """

    folder: Path

    @property
    def root(self) -> Path:
        """The cache folder that contains it."""
        return self.folder.parents[3]

    @property
    def manifest(self) -> Path:
        """The list of its files."""
        return self.folder / "manifest.sqlite"

    @property
    def tree(self) -> Path:
        """Complete, verified files, as pods see them."""
        return self.folder / "tree"

    @property
    def quarantine(self) -> Path:
        """The tree after an unclean stop, until each file is verified or deleted. Then it becomes ``tree`` again."""
        return self.folder / "quarantine"

    @property
    def parts(self) -> Path:
        """Incomplete files."""
        return self.folder / "parts"

    @property
    def packed(self) -> Path:
        """Compressed copies of files outside the tree."""
        return self.folder / "packed"

    def packed_copy(self, ino: int) -> str:
        """Return the path of a file's compressed copy; a string, because each read of a missing file needs it."""
        return f"{self.folder}/packed/{ino}.zst"

    @property
    def damaged(self) -> Path:
        """Second names of damaged files under repair."""
        return self.folder / "damaged"

    @property
    def complete(self) -> Path:
        """Marker: every file is in the tree."""
        return self.folder / "complete"

    @property
    def doubtful(self) -> Path:
        """Marker: its files are unchecked since an unclean stop; they must not be mounted or read."""
        return self.folder / "doubtful"

    @property
    def synced(self) -> Path:
        """Its time is when the named files were known to be on the disk: a byte per inode, compressed."""
        return self.folder / "synced"

    @property
    def sums(self) -> Path:
        """Checksums of its files from the scrub."""
        return self.folder / "sums"

    @property
    def arrived(self) -> Path:
        """CRC-64/NVME of large files on arrival, 8 bytes per inode, 0 for none."""
        return self.folder / "arrived"

    @property
    def scrubbed(self) -> Path:
        """Its time is the end of the last scrub."""
        return self.folder / "scrubbed"

    @property
    def linked(self) -> Path:
        """Marker: files from other versions, and the bytes of hard-linked ones."""
        return self.folder / "linked"


@dataclass(frozen=True)
class DatasetPaths:
    """The paths of one dataset, in the folder named by its UID."""

    folder: Path

    @property
    def listing(self) -> Path:
        """The last listing by this node, as JSON."""
        return self.folder / "listing.json"

    @property
    def used(self) -> Path:
        """Its time is a pod's last read or mount."""
        return self.folder / "used"

    @property
    def evicted(self) -> Path:
        """Why it was evicted from this disk, a sentence; missing if it was not."""
        return self.folder / "evicted"

    def version(self, digest: str) -> VersionPaths:
        """Return the paths of one version. Raises NotConfigured for an invalid digest."""
        return VersionPaths(self.folder / "versions" / _checked(digest, "version"))

    def digests(self) -> Iterator[str]:
        """Yield the versions on this disk with a manifest."""
        return (path.parent.name for path in self.folder.glob("versions/*/manifest.sqlite"))


@dataclass(frozen=True)
class CachePaths:
    """The paths of one cache folder."""

    root: Path

    @property
    def datasets(self) -> Path:
        """One folder for each dataset."""
        return self.root / "datasets"

    @property
    def trash(self) -> Path:
        """Renamed files for deletion in the background."""
        return self.root / "trash"

    @property
    def transients(self) -> Path:
        """In memory: files that are read through while no disk has room."""
        return self.root / "transients"

    @property
    def boot(self) -> Path:
        """The kernel's boot id when this disk was last opened."""
        return self.root / "boot"

    def dataset(self, uid: str) -> DatasetPaths:
        """Return the paths of one dataset. Raises NotConfigured for an invalid UID."""
        return DatasetPaths(self.datasets / _checked(uid, "dataset"))


def check_uid(uid: str) -> None:
    """Refuse an invalid UID. Raises NotConfigured."""
    _checked(uid, "dataset")


def _checked(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise NotConfigured(f"{name!r} cannot name a {what}: it would not be a plain folder name")
    return name


# Bytes of a piece. A GET of 8 MiB runs at nearly the speed of a long one, and a random read waits for 8 MiB at most.
PIECE = 8 * 1024 * 1024
MAP_SUFFIX = ".map"
_HELD_SUFFIX = ".held"
_PART_NAME = re.compile(r"[0-9]{1,10}\.[0-9a-f]{8}")


def is_part_name(name: str) -> bool:
    """Return True for a valid name of an incomplete file: its inode, a dot and eight random digits."""
    return _PART_NAME.fullmatch(name) is not None


def map_of(path: Path) -> Path:
    """Return the file with a byte per piece: 1 if it came from the source."""
    return path.with_name(path.name + MAP_SUFFIX)


def held_of(path: Path) -> Path:
    """Return the file with a byte per piece: 1 if another node sent it, and no proof exists yet."""
    return path.with_name(path.name + _HELD_SUFFIX)

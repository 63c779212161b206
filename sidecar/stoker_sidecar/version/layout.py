"""Where things lie on the cache disk."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker_sidecar.errors import NotConfigured

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class VersionPaths:
    """The paths of one version: ``tree`` holds whole files, ``parts`` what is being fetched or read through."""

    folder: Path

    @property
    def root(self) -> Path:
        """The cache folder that it lies in."""
        return self.folder.parents[3]

    @property
    def manifest(self) -> Path:
        """The list of its files."""
        return self.folder / "manifest.sqlite"

    @property
    def tree(self) -> Path:
        """Whole, verified files, as the pods see them."""
        return self.folder / "tree"

    @property
    def parts(self) -> Path:
        """Files in the making."""
        return self.folder / "parts"

    @property
    def packed(self) -> Path:
        """Compressed copies of files that are not in the tree."""
        return self.folder / "packed"

    def packed_copy(self, ino: int) -> str:
        """Return where the compressed copy of a file lies; a string, since each read of a missing file asks."""
        return f"{self.folder}/packed/{ino}.zst"

    @property
    def damaged(self) -> Path:
        """Second names of damaged files that are being repaired."""
        return self.folder / "damaged"

    @property
    def complete(self) -> Path:
        """Marker: every file is in the tree."""
        return self.folder / "complete"

    @property
    def doubtful(self) -> Path:
        """Marker: the machine was started anew since this version was last looked at."""
        return self.folder / "doubtful"

    @property
    def synced(self) -> Path:
        """Dated when the files that it names were known to be on the disk: a byte an inode, compressed."""
        return self.folder / "synced"

    @property
    def sums(self) -> Path:
        """Checksums of its files, as the scrub found them."""
        return self.folder / "sums"

    @property
    def scrubbed(self) -> Path:
        """Dated when the last scrub ended."""
        return self.folder / "scrubbed"

    @property
    def linked(self) -> Path:
        """Marker: files that came from other versions, and bytes of those that are hard links."""
        return self.folder / "linked"


@dataclass(frozen=True)
class DatasetPaths:
    """The paths of one dataset, in the folder that its UID names."""

    folder: Path

    @property
    def listing(self) -> Path:
        """The last listing that this node made, as JSON."""
        return self.folder / "listing.json"

    @property
    def used(self) -> Path:
        """Dated when a pod last read or mounted it."""
        return self.folder / "used"

    @property
    def evicted(self) -> Path:
        """Why it was dropped from this disk, a sentence; not there when it was not."""
        return self.folder / "evicted"

    def version(self, digest: str) -> VersionPaths:
        """Return the paths of one version. Raises NotConfigured for what cannot be a digest."""
        return VersionPaths(self.folder / "versions" / _checked(digest, "version"))

    def digests(self) -> Iterator[str]:
        """Find the versions on this disk that have a manifest."""
        return (path.parent.name for path in self.folder.glob("versions/*/manifest.sqlite"))


@dataclass(frozen=True)
class CachePaths:
    """The paths of one cache folder."""

    root: Path

    @property
    def datasets(self) -> Path:
        """One folder each."""
        return self.root / "datasets"

    @property
    def trash(self) -> Path:
        """What was renamed away to be deleted at leisure."""
        return self.root / "trash"

    @property
    def transients(self) -> Path:
        """In memory: what is read through while no disk has room."""
        return self.root / "transients"

    @property
    def boot(self) -> Path:
        """The kernel's boot id when this disk was last opened."""
        return self.root / "boot"

    def dataset(self, uid: str) -> DatasetPaths:
        """Return the paths of one dataset. Raises NotConfigured for what cannot be a UID."""
        return DatasetPaths(self.datasets / _checked(uid, "dataset"))


def check_uid(uid: str) -> None:
    """Refuse what cannot be a UID. Raises NotConfigured."""
    _checked(uid, "dataset")


def _checked(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise NotConfigured(f"{name!r} cannot name a {what}: it would not be a plain folder name")
    return name

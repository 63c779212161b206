"""Finds the versions on the cache disk: the publisher's look at the folders that the fetcher fills."""

from collections.abc import Sequence
from pathlib import Path

from stoker_sidecar.cache.manifest import Manifest
from stoker_sidecar.core.publish import VersionOnDisk


class CacheFolders:
    """The cache roots of this node; a version lies in one of them."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(roots)

    def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        """A version whose manifest is here, whole (it arrives by rename). Raises ManifestInvalid when it is damaged."""
        for root in self._roots:
            folder = root / "datasets" / uid / "versions" / digest
            if (folder / "manifest.sqlite").is_file():
                return _read(folder)
        return None


def _read(folder: Path) -> VersionOnDisk:
    manifest = Manifest.open(folder / "manifest.sqlite")
    try:
        info = manifest.info
    finally:
        manifest.close()
    return VersionOnDisk(folder, info.files, info.bytes, complete=(folder / "complete").exists())

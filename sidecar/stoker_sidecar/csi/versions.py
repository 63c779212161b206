"""Finds the versions on the cache disk: the publisher's look at the folders that the fetcher fills."""

from collections.abc import Sequence
from pathlib import Path

from stoker_sidecar.cache.layout import CachePaths, VersionPaths
from stoker_sidecar.cache.manifest import Manifest
from stoker_sidecar.core.publish import VersionOnDisk


class CacheFolders:
    """The cache roots of this node; a version lies in one of them."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = [CachePaths(root) for root in roots]

    def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        """A version whose manifest is here, whole (it arrives by rename). Raises CacheError when it is damaged."""
        for root in self._roots:
            paths = root.dataset(uid).version(digest)
            if paths.manifest.is_file():
                return _read(paths)
        return None


def _read(paths: VersionPaths) -> VersionOnDisk:
    manifest = Manifest.open(paths.manifest)
    try:
        info = manifest.info
    finally:
        manifest.close()
    return VersionOnDisk(paths.folder, info.files, info.bytes, complete=paths.complete.exists())

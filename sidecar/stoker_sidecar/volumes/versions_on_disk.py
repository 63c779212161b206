"""Finds the versions in the cache folders: the publisher's look at what the fetcher fills."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.linux.libc import give_back_memory
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.confined_threads import ConfinedThreads
from stoker_sidecar.volumes.core.publish import VersionOnDisk

T = TypeVar("T")


class CacheFolders:
    """The cache folders of a node; a version lies in one of them. ``in_service``: what the fetcher says of a folder.

    ``confined``: manifests are read by threads that may read these folders alone, as the folders are another user's.
    """

    def __init__(
        self, roots: Sequence[Path], in_service: Callable[[Path], bool] = lambda root: True, *, confined: bool = False
    ) -> None:
        self._roots = [CachePaths(root) for root in roots]
        self._in_service = in_service
        self._threads = ConfinedThreads(map(str, roots)) if confined else None

    def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        """Find a version whose manifest is here, whole (it arrives by rename). Raises CacheError when it is damaged.

        What lies on a disk that does not answer is not found.
        """
        paths = self.paths(uid, digest)
        if paths is None:
            return None
        return self.read(_read, paths)

    def read(self, work: Callable[[VersionPaths], T], paths: VersionPaths) -> T:
        """Return what ``work`` reads of a version, confined as all reading here. Raises what it raises."""
        return work(paths) if self._threads is None else self._threads.run(work, paths)

    def go_through(self, work: Callable[[VersionPaths], T], paths: VersionPaths) -> T:
        """Do the same for what reads a whole manifest: the memory that this took goes back to the kernel.

        Else malloc would keep SQLite's pages, 4 MB for each of the threads.
        """
        try:
            return self.read(work, paths)
        finally:
            give_back_memory()

    def paths(self, uid: str, digest: str) -> VersionPaths | None:
        """Return where a version lies: rather in a folder that is in service, and rather where it is complete.

        A version that started anew elsewhere since its folder failed is found there, and is then not complete any more.
        """
        found = [(root, root.dataset(uid).version(digest)) for root in self._roots]
        here = [(root, paths) for root, paths in found if is_there(paths.manifest)]
        best = min(
            here, key=lambda one: (not self._in_service(one[0].root), not is_there(one[1].complete)), default=None
        )
        return best[1] if best is not None else None


def _read(paths: VersionPaths) -> VersionOnDisk:
    # SQLite would follow a link, and wait for a pipe. It opens by name, whatever it is given (it resolves
    # /proc/self/fd): against a link that is put there after this look, there are the confined threads.
    try:
        os.close(open_file_beneath(paths.root, paths.manifest))
    except OSError as error:
        raise CacheDiskFailed(f"the manifest {paths.manifest} is not a file that can be read: {error}") from error
    manifest = Manifest.open(paths.manifest)
    try:
        info = manifest.info
    finally:
        manifest.close()
    return VersionOnDisk(paths.folder, info.files, info.bytes, complete=is_there(paths.complete))

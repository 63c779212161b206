"""Finds the versions that the fetcher stores in the cache folders, for the publisher."""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from stoker_sidecar.errors import CacheDiskFailed
from stoker_sidecar.linux.beneath import open_file_beneath
from stoker_sidecar.linux.files import is_there
from stoker_sidecar.linux.hardware import boot_id
from stoker_sidecar.linux.libc import give_back_memory
from stoker_sidecar.linux.sandbox.confinement import Confinement
from stoker_sidecar.linux.sandbox.landlock import TcpAccess, abi, shortcoming
from stoker_sidecar.version.layout import CachePaths, VersionPaths
from stoker_sidecar.version.manifest import Manifest
from stoker_sidecar.volumes.core.publish import VersionKey, VersionOnDisk

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_NO_TCP = TcpAccess.BIND | TcpAccess.CONNECT
_THREADS = 4  # several, so that a hanging disk does not block the other disks


class ConfinedThreads:
    """Threads of the root agent that read another user's folders and can open nothing else (ADR 15).

    Without Landlock in the kernel they run unconfined.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = tuple(folders)
        self._works = not shortcoming(abi())
        self._making = threading.Lock()
        self._current: tuple[Confinement, ThreadPoolExecutor] | None = None

    def run(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run ``work`` in such a thread and return its result. Blocks. Raises its errors."""
        if not self._works:
            return work(*arguments, **options)
        return self._pool().submit(work, *arguments, **options).result()

    def _pool(self) -> ThreadPoolExecutor:
        with self._making:
            if self._current is None or self._current[0].is_outdated():
                if self._current is not None:
                    self._current[1].shutdown(wait=False)
                confinement = Confinement(readable=self._folders)
                confinement.take_note()
                pool = ThreadPoolExecutor(_THREADS, "confined", partial(confinement.begin, no_tcp=_NO_TCP))
                self._current = confinement, pool
            return self._current[1]


_BOOT_ID_BYTES = 64


class CacheFolders:
    """The cache folders of a node. Each version lies in one. ``in_service`` returns the fetcher's verdict on a folder.

    ``confined`` means that threads with access to only these folders read manifests, because another user owns them.
    ``opened`` returns True for folders to search. The default suits callers that wait for the fetcher's answer.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        in_service: Callable[[Path], bool] = lambda root: True,
        *,
        confined: bool = False,
        opened: Callable[[CachePaths], bool] = lambda root: True,
    ) -> None:
        self._roots = [CachePaths(root) for root in roots]
        self._in_service = in_service
        self._opened = opened
        self._threads = ConfinedThreads(map(str, roots)) if confined else None

    def find(self, uid: str, digest: str) -> VersionOnDisk | None:
        """Find a version with a complete manifest (it arrives by rename). Raises CacheError if the manifest is damaged.

        A version on a disk that does not respond is not found.
        """
        paths = self.paths(uid, digest)
        if paths is None:
            return None
        return self.read(_read, paths)

    def read(self, work: Callable[[VersionPaths], T], paths: VersionPaths) -> T:
        """Run ``work`` on a version, confined like all reads here, and return its result. Raises its errors."""
        return work(paths) if self._threads is None else self._threads.run(work, paths)

    def go_through(self, work: Callable[[VersionPaths], T], paths: VersionPaths) -> T:
        """Like ``read``, for work that reads a whole manifest. It returns the freed memory to the kernel.

        Otherwise malloc keeps SQLite's pages, 4 MB for each thread.
        """
        try:
            return self.read(work, paths)
        finally:
            give_back_memory()

    def everything(self) -> frozenset[VersionKey]:
        """Return every version in the cache folders. Blocks. Skips folders that a failing disk cannot list."""
        return frozenset((path.parents[1].name, path.name) for root in self._roots for path in _versions_in(root))

    def paths(self, uid: str, digest: str) -> VersionPaths | None:
        """Return a version's paths. Prefer a folder in service, then a complete copy.

        A version may have restarted in another folder after its folder failed; that copy is found, and is incomplete.
        After an unclean stop, a version is found only after the fetcher has checked its files.
        """
        roots = [root for root in self._roots if self._opened(root)]
        found = [(root, root.dataset(uid).version(digest)) for root in roots]
        here = [(root, paths) for root, paths in found if is_there(paths.manifest) and not is_there(paths.doubtful)]
        best = min(
            here, key=lambda one: (not self._in_service(one[0].root), not is_there(one[1].complete)), default=None
        )
        return best[1] if best is not None else None


def _versions_in(root: CachePaths) -> list[Path]:
    try:
        return list(root.datasets.glob("*/versions/*"))
    except OSError as error:
        log.warning("the versions in %s cannot be listed: %s", root.root, error.strerror)
        return []


class OpenedFolders:
    """The cache folders that the fetcher has opened since boot. It has set aside doubtful files there."""

    def __init__(self) -> None:
        self._opened: set[CachePaths] = set()

    def __call__(self, root: CachePaths) -> bool:
        """Return whether a folder was opened in this boot."""
        if root not in self._opened and _opened_in(root) == boot_id():
            self._opened.add(root)
        return root in self._opened


def _opened_in(root: CachePaths) -> str:
    """Return the id of the boot in which the fetcher last opened a folder. Empty without one."""
    try:
        descriptor = open_file_beneath(root.root, root.boot)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _BOOT_ID_BYTES).decode(errors="replace").strip()
    finally:
        os.close(descriptor)


def _read(paths: VersionPaths) -> VersionOnDisk:
    # SQLite would follow a link and block on a pipe. It opens by name only (it resolves /proc/self/fd). The confined
    # threads protect against a link that replaces the file after this check.
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

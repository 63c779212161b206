"""The open versions of one dataset on this node: found, fetched, linked from each other, moved and dropped."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from stoker_sidecar.errors import CacheError
from stoker_sidecar.fetcher.datasets.manifests import Destination
from stoker_sidecar.fetcher.datasets.version_manifests import VersionManifests, VersionPlaces
from stoker_sidecar.fetcher.download.context import DownloadContext
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.recovery.preparation import Preparation
from stoker_sidecar.fetcher.ondisk.recovery.repairs import Repairs, left_over
from stoker_sidecar.fetcher.peers.peer_downloads import PeerDownloads
from stoker_sidecar.fetcher.space.budget import SpaceBudget, VersionSpace
from stoker_sidecar.fetcher.space.folders import CacheDisks
from stoker_sidecar.linux.files import disk_errors, is_there
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry
from stoker_sidecar.wire.fetcher_protocol import PACKED_BYTES, UNPACKED_BYTES


class OpenVersions:
    """Opens and closes the versions of one dataset, and keeps its budget's list of open versions."""

    def __init__(self, folders: CacheDisks, budget: SpaceBudget, context: DownloadContext, repairs: Repairs) -> None:
        self._uid = budget.config.uid
        self._folders = folders
        self._budget = budget
        self._context = context
        self._repairs = repairs
        self._opening = asyncio.Lock()
        self._places = VersionPlaces(folders, budget)
        self._manifests = VersionManifests(folders, self._uid, context.settings.peers)
        self.fetchings: dict[str, Fetching] = {}
        self.peer_downloads: dict[str, PeerDownloads] = {}

    @property
    def placed(self) -> set[str]:
        """The digests of versions that have a folder and are still being opened."""
        return self._places.placed

    def placing(self) -> AbstractContextManager[Destination]:
        """Give versions folders. None of them is dropped before the end, when the caller has opened them."""
        return self._places.placing()

    async def open(self, digest: str, manifest_hosts: tuple[str, ...] | None) -> Fetching:
        """Open a version; fetch or take over its manifest if needed. An open version is returned unchanged.

        Raises SidecarError.

        ``manifest_hosts``: host:port of nodes with its manifest; None if this node must have it already.
        """
        async with self._opening:
            if digest in self.fetchings:
                return self.fetchings[digest]
            with self._places.placing() as place:
                found = await in_thread(self._folders.find, self._uid, digest)
                paths = found or await self._manifests.bring(digest, manifest_hosts, place)
                if not is_there(paths.linked):
                    await self._open_donors(digest)
                return await self._load(paths)

    def is_open(self, fetching: Fetching) -> bool:
        """Return True if the version is still open with this fetching."""
        return self.fetchings.get(fetching.version.paths.folder.name) is fetching

    def has(self, digest: str) -> bool:
        """Return True if its manifest is here, or was rescued."""
        return self._manifests.has_rescued(digest) or self._folders.find(self._uid, digest) is not None

    def whole(self, digest: str) -> VersionPaths | None:
        """Return the paths of a version if it is whole, open or not. Raises OSError."""
        if (fetching := self.fetchings.get(digest)) is not None:
            return fetching.version.paths if fetching.version.complete else None
        paths = self._folders.find(self._uid, digest)
        return paths if paths is not None and is_there(paths.complete) else None

    async def sharing(self, path: str, is_it: Callable[[Path], bool]) -> list[tuple[Fetching, Entry]]:
        """Find the open versions whose tree has a certain file at a path. Versions with equal files share them."""
        found = []
        for fetching in list(self.fetchings.values()):
            entry = fetching.version.manifest.find(path) if self.is_open(fetching) else None
            if entry is not None and await in_thread(is_it, fetching.version.tree_path(entry)):
                found.append((fetching, entry))
        return found

    async def withdraw(self, path: str, is_it: Callable[[Path], bool]) -> None:
        """Remove a damaged file from every version that shares it. Raises DiskFull or CacheDiskFailed."""
        async with self._opening:
            await self._withdraw(path, is_it)

    async def leave_lost(self) -> bool:
        """Close versions whose folder is gone or out of service, so that they restart. Return True if one was closed.

        Their manifests are saved, from the open file.
        """
        if not self._lost_digests():
            return False  # before the lock, which is held for as long as a version is checked
        async with self._opening:
            lost = self._lost_digests()
            for digest in lost:
                fetching = self._take(digest)
                await fetching.stop()
                await self._manifests.lose(digest, fetching.version.manifest)
                await fetching.close()
        return bool(lost)

    def _lost_digests(self) -> list[str]:
        return [digest for digest, found in self.fetchings.items() if self._folders.is_lost(found.version.paths)]

    async def drop_copies(self) -> None:
        """Drop copies of versions that went on elsewhere while a folder was out of service."""
        for fetching in list(self.fetchings.values()):
            await in_thread(self._folders.drop_copies, self._uid, fetching.version.paths)

    async def drop(self, digest: str) -> None:
        """Remove a version from the disk. Raises DiskFull or CacheDiskFailed."""
        fetching = self._take(digest) if digest in self.fetchings else None
        paths = fetching.version.paths if fetching is not None else self._folders.find(self._uid, digest)
        if paths is None:
            return
        with disk_errors(f"version {digest[:12]}"):
            delete = self._folders.disk_of(paths).discard(paths.folder)
        if fetching is not None:
            await fetching.close()
        await in_thread(delete)

    async def empty(self, digest: str) -> None:
        """Drop its bytes, keep its manifest: it can be read on, through the network.

        Raises DiskFull or CacheDiskFailed.
        """
        fetching = self._take(digest)
        paths, disk = fetching.version.paths, self._folders.disk_of(fetching.version.paths)
        with disk_errors(f"version {digest[:12]}"):
            for marker in (paths.complete, paths.synced):
                marker.unlink(missing_ok=True)
            deletions = [disk.discard(folder) for folder in (paths.tree, paths.parts, paths.packed)]
            paths.sums.unlink(missing_ok=True)
            paths.linked.unlink(missing_ok=True)
        await fetching.close()
        for delete in deletions:
            await in_thread(delete)

    def not_wanted(self, wanted: Iterable[str]) -> list[str]:
        """Return the versions on the disks but not in ``wanted``. Blocks."""
        return [digest for digest in self._folders.digests(self._uid) if digest not in set(wanted)]

    async def sync(self, version: CachedVersion) -> None:
        """Fsync the files that are here, unless their disk is in doubt.

        Raises DiskFull or CacheDiskFailed.
        """
        await self._unless_in_doubt(version, version.sync)

    async def secure(self, version: CachedVersion) -> None:
        """Fsync a complete version. On failure, mark it incomplete. Raises as ``sync``."""
        try:
            await self._unless_in_doubt(version, version.secure)
        except CacheError:
            version.complete = False
            raise

    async def close(self) -> None:
        """Stop all work. Files on the disk stay."""
        for fetching in self.fetchings.values():
            await fetching.close()
        self.fetchings.clear()
        self.peer_downloads.clear()
        self._budget.versions.clear()

    async def _unless_in_doubt(self, version: CachedVersion, sync: Callable[[], None]) -> None:
        if await in_thread(self._folders.is_in_doubt, version.paths):
            return
        try:
            await in_thread(sync)
        except CacheError:
            # The kernel reports lost writes once, of any file of the disk: the next sync would succeed without them.
            with disk_errors("the cache folder"):
                await in_thread(self._folders.disk_of(version.paths).doubt)
            await self.leave_lost()
            raise

    async def _withdraw(self, path: str, is_it: Callable[[Path], bool]) -> None:
        for fetching, entry in await self.sharing(path, is_it):
            if self.is_open(fetching):
                await fetching.take_away(entry)
        for digest in await in_thread(self._folders.digests, self._uid):
            paths = self._folders.find(self._uid, digest) if digest not in self.fetchings else None
            if paths is not None:
                await in_thread(_take_out, paths, path, is_it)

    async def _mend_left(self, paths: VersionPaths) -> None:
        """Finish repairs that a kill interrupted, so that readers find the right bytes, or none."""
        for path, damaged in await in_thread(left_over, paths):
            with damaged:
                if not await in_thread(damaged.heal):
                    await self._withdraw(path, damaged.is_at)
                    await in_thread(damaged.empty)

    def _take(self, digest: str) -> Fetching:
        del self._budget.versions[digest], self.peer_downloads[digest]
        return self.fetchings.pop(digest)

    async def _open_donors(self, digest: str) -> None:
        for other in await in_thread(self._folders.digests, self._uid):
            paths = self._folders.find(self._uid, other)
            if other not in (digest, *self.fetchings) and paths is not None and _has_files(paths):
                await self._load(paths)

    async def _load(self, paths: VersionPaths) -> Fetching:
        disk = self._folders.disk_of(paths)
        others = [fetching.version for fetching in self.fetchings.values()]
        donors = [other for other in others if self._folders.disk_of(other.paths) is disk]
        version = await in_thread(CachedVersion.unprepared, paths)
        try:
            await _in_steps(Preparation(version, donors, disk.free_inodes()).run())
        except BaseException:
            version.close()
            raise
        if not donors:
            version.shared_bytes = 0  # the versions that shared them are gone
        for ino in version.distrusted:  # FUSE servers and the kernel kept these files while the disk was out of service
            self._repairs.add(self._uid, paths.folder.name, ino)
        version.distrusted.clear()
        self._manifests.opened(paths.folder.name)
        self._context.telemetry.add(UNPACKED_BYTES, version.unpacked_bytes)
        self._context.telemetry.add(PACKED_BYTES, version.packed_bytes)
        await self._mend_left(paths)
        space = VersionSpace(self._budget, self._folders, version, disk)
        self._budget.versions[paths.folder.name] = version
        fetching = Fetching(version, space, self._context)
        downloads = PeerDownloads(fetching.writer, fetching.admits, fetching.under_way)
        fetching.stop_peers = downloads.stop
        self.fetchings[paths.folder.name], self.peer_downloads[paths.folder.name] = fetching, downloads
        return fetching


def _has_files(paths: VersionPaths) -> bool:
    """Return whether something of a version may be here, checked or not."""
    return is_there(paths.tree) or is_there(paths.quarantine)


async def _in_steps(steps: Iterator[None]) -> None:
    """Run blocking steps in threads, and free the threads in between. Raises the errors of the steps."""
    end = object()
    while await in_thread(next, steps, end) is not end:
        pass


def _take_out(paths: VersionPaths, path: str, is_it: Callable[[Path], bool]) -> None:
    """Remove a damaged file from a closed version. The next opening notices that it is missing."""
    if is_it(paths.tree / path):
        with disk_errors(f"version {paths.folder.name[:12]}"):
            paths.complete.unlink(missing_ok=True)
            (paths.tree / path).unlink(missing_ok=True)

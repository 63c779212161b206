"""The versions of one dataset that are open on this node: found, fetched, linked from each other, moved and dropped."""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker_api.names import PEER_SECRET, Reason
from stoker_sidecar.errors import CacheError, ManifestUnavailable, NotConfigured, NotYetConfigured
from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.context import DownloadContext
from stoker_sidecar.fetcher.download.fetching import Fetching
from stoker_sidecar.fetcher.manifests import Destination, install_manifest
from stoker_sidecar.fetcher.repairs import left_over
from stoker_sidecar.fetcher.space.budget import SpaceBudget, VersionSpace
from stoker_sidecar.fetcher.space.folders import CacheDisks
from stoker_sidecar.linux.files import disk_errors, is_there
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.builder import verify
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.version.manifest import Entry, ManifestInfo
from stoker_sidecar.wire.fetcher_protocol import PACKED_BYTES, UNPACKED_BYTES
from stoker_sidecar.wire.peer_tls import left


class OpenVersions:
    """Opens and closes the versions of one dataset, and keeps its budget's list of those that are open."""

    def __init__(self, folders: CacheDisks, budget: SpaceBudget, context: DownloadContext) -> None:
        self._uid = budget.config.uid
        self._folders = folders
        self._budget = budget
        self._context = context
        self._opening = asyncio.Lock()
        self._rescued: dict[str, Path] = {}
        self._lost: set[str] = set()  # left with their folder, and not open again
        self.fetchings: dict[str, Fetching] = {}
        self._placing: list[set[str]] = []

    @property
    def placed(self) -> set[str]:
        """The digests of versions that were given a folder, and of which nothing else knows yet."""
        return set().union(*self._placing)

    @contextmanager
    def placing(self) -> Iterator[Destination]:
        """Give versions folders, and have none of them dropped until the end, when who asked for them knows them."""
        digests: set[str] = set()
        self._placing.append(digests)

        def destination(info: ManifestInfo) -> VersionPaths:
            digests.add(info.digest)
            return self._folder_for(info)

        try:
            yield destination
        finally:
            self._placing = [one for one in self._placing if one is not digests]

    def _folder_for(self, info: ManifestInfo) -> VersionPaths:
        """Return where a version lies, or will lie."""
        found = self._folders.find(self._uid, info.digest)
        if found is not None:
            return found
        quota = self._budget.config.quota_bytes
        need = info.bytes if quota is None else min(quota, info.bytes)
        return self._folders.place(self._uid, need).dataset.version(info.digest)

    async def open(self, digest: str, manifest_hosts: tuple[str, ...] | None) -> Fetching:
        """Open a version, fetched or taken over as far as need be; one that is open is returned as it is.

        Raises SidecarError.

        ``manifest_hosts``: host:port of who has its manifest; None when this node was not given it and must have it
        already.
        """
        async with self._opening:
            if digest in self.fetchings:
                return self.fetchings[digest]
            with self.placing() as place:
                found = await in_thread(self._folders.find, self._uid, digest)
                paths = found or await self._get(digest, manifest_hosts, place)
                if not is_there(paths.linked):
                    await self._open_donors(digest)
                return await self._load(paths)

    def is_open(self, fetching: Fetching) -> bool:
        """Tell whether this is the version as it is open now."""
        return self.fetchings.get(fetching.version.paths.folder.name) is fetching

    def has(self, digest: str) -> bool:
        """Tell whether its manifest is here, be it only in safety."""
        return digest in self._rescued or self._folders.find(self._uid, digest) is not None

    def whole(self, digest: str) -> VersionPaths | None:
        """Return where a version lies, if it is whole, whether it is open or not. Raises OSError."""
        if (fetching := self.fetchings.get(digest)) is not None:
            return fetching.version.paths if fetching.version.complete else None
        paths = self._folders.find(self._uid, digest)
        return paths if paths is not None and is_there(paths.complete) else None

    async def sharing(self, path: str, is_it: Callable[[Path], bool]) -> list[tuple[Fetching, Entry]]:
        """Find the open versions whose tree has a certain file at a path: those that are alike there share it."""
        found = []
        for fetching in list(self.fetchings.values()):
            entry = fetching.version.manifest.find(path) if self.is_open(fetching) else None
            if entry is not None and await in_thread(is_it, fetching.version.tree_path(entry)):
                found.append((fetching, entry))
        return found

    async def withdraw(self, path: str, is_it: Callable[[Path], bool]) -> None:
        """Take a damaged file out of every version that shares it. Raises DiskFull or CacheDiskFailed."""
        async with self._opening:
            await self._withdraw(path, is_it)

    async def leave_lost(self) -> bool:
        """Close versions whose folder is gone or out of service, so that they start anew; return whether there was one.

        Their manifests are saved, from the open file.
        """
        async with self._opening:
            lost = [digest for digest, found in self.fetchings.items() if self._folders.is_lost(found.version.paths)]
            for digest in lost:
                fetching = self._take(digest)
                await fetching.stop()
                self._lost.add(digest)
                if self._folders.find(self._uid, digest) is None:
                    with suppress(CacheError, OSError):
                        self._rescued[digest] = await in_thread(self._rescue, fetching)
                await fetching.close()
        return bool(lost)

    async def drop_copies(self) -> None:
        """Drop copies of versions that went on elsewhere while a folder was out of service."""
        for fetching in list(self.fetchings.values()):
            await in_thread(self._folders.drop_copies, self._uid, fetching.version.paths)

    async def drop(self, digest: str) -> None:
        """Take a version off the disk. Raises DiskFull or CacheDiskFailed."""
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
        """Have the files that are here by now survive a power cut, unless their disk is in doubt.

        Raises DiskFull or CacheDiskFailed.
        """
        await self._unless_in_doubt(version, version.sync)

    async def secure(self, version: CachedVersion) -> None:
        """Have a whole version survive a power cut; one for which that fails is whole no more. Raises as ``sync``."""
        try:
            await self._unless_in_doubt(version, version.secure)
        except CacheError:
            version.complete = False
            raise

    async def close(self) -> None:
        """Stop all work; what is on the disk stays."""
        for fetching in self.fetchings.values():
            await fetching.close()
        self.fetchings.clear()
        self._budget.versions.clear()

    async def _unless_in_doubt(self, version: CachedVersion, sync: Callable[[], None]) -> None:
        if not await in_thread(self._folders.is_in_doubt, version.paths):
            await in_thread(sync)

    async def _withdraw(self, path: str, is_it: Callable[[Path], bool]) -> None:
        for fetching, entry in await self.sharing(path, is_it):
            if self.is_open(fetching):
                await fetching.take_away(entry)
        for digest in await in_thread(self._folders.digests, self._uid):
            paths = self._folders.find(self._uid, digest) if digest not in self.fetchings else None
            if paths is not None:
                await in_thread(_take_out, paths, path, is_it)

    async def _mend_left(self, paths: VersionPaths) -> None:
        """Have readers of files that were being repaired when a process was killed find the right bytes, or none."""
        for path, damaged in await in_thread(left_over, paths):
            with damaged:
                if not await in_thread(damaged.heal):
                    await self._withdraw(path, damaged.is_at)
                    await in_thread(damaged.empty)

    def _take(self, digest: str) -> Fetching:
        del self._budget.versions[digest]
        return self.fetchings.pop(digest)

    async def _get(self, digest: str, hosts: tuple[str, ...] | None, place: Destination) -> VersionPaths:
        if (rescued := self._rescued.pop(digest, None)) is not None:
            with suppress(CacheError, OSError):
                info = await in_thread(verify, rescued, digest)
                target = place(info)
                await in_thread(install_manifest, rescued, target)
                return target
        if hosts is None:
            raise NotConfigured(f"this node has no version {digest[:12]} of this dataset")
        if not hosts and digest in self._lost:
            # Its readers are told to ask again, not that it failed: this node lists anew at this moment.
            sentence = f"the manifest of version {digest[:12]} was lost with its cache folder: listing again"
            raise NotYetConfigured(sentence, reason=Reason.MANIFEST_UNAVAILABLE)
        # Late: it needs aiohttp, a tenth of a second at each start of a fetcher, and who lists asks nobody.
        from stoker_sidecar.fetcher.given_manifests import fetch_manifest

        urls = tuple(f"https://{host}/manifests/{self._uid}/{digest}" for host in hosts)
        tls = await in_thread(self._peer_tls) if urls else None
        await fetch_manifest(urls, self._folders.home(self._uid).dataset, digest, place, tls=tls)
        found = self._folders.find(self._uid, digest)
        if found is None:
            raise NotConfigured(f"the manifest of version {digest[:12]} was lost again: its cache folder failed")
        return found

    def _peer_tls(self) -> ssl.SSLContext:
        """Return what other nodes know this one by. Blocks. Raises ManifestUnavailable while there is nothing."""
        folder = self._context.settings.peers
        try:
            found = left(folder) if folder else None
            if found is not None:
                return found.client_context()
        except (OSError, ValueError) as error:
            raise ManifestUnavailable(f"this node's certificate for other nodes cannot be used: {error}") from error
        raise ManifestUnavailable(
            f"this node has no certificate for other nodes yet: the operator makes it, in Secret {PEER_SECRET}"
        )

    def _rescue(self, fetching: Fetching) -> Path:
        home = self._folders.home(self._uid).dataset
        home.folder.mkdir(parents=True, exist_ok=True)
        target = home.folder / f"manifest.{fetching.version.manifest.info.digest[:12]}.rescued"
        target.unlink(missing_ok=True)
        fetching.version.manifest.copy_to(target)
        return target

    async def _open_donors(self, digest: str) -> None:
        for other in await in_thread(self._folders.digests, self._uid):
            paths = self._folders.find(self._uid, other)
            if other not in (digest, *self.fetchings) and paths is not None and is_there(paths.tree):
                await self._load(paths)

    async def _load(self, paths: VersionPaths) -> Fetching:
        disk = self._folders.disk_of(paths)
        others = [fetching.version for fetching in self.fetchings.values()]
        donors = [other for other in others if self._folders.disk_of(other.paths) is disk]
        version = await in_thread(CachedVersion.load, paths, donors)
        if not donors:
            version.shared_bytes = 0  # the versions that it shared them with are gone
        self._lost.discard(paths.folder.name)
        self._context.telemetry.add(UNPACKED_BYTES, version.unpacked_bytes)
        self._context.telemetry.add(PACKED_BYTES, version.packed_bytes)
        await self._mend_left(paths)
        space = VersionSpace(self._budget, self._folders, version, disk)
        self._budget.versions[paths.folder.name] = version
        self.fetchings[paths.folder.name] = Fetching(version, space, self._context)
        return self.fetchings[paths.folder.name]


def _take_out(paths: VersionPaths, path: str, is_it: Callable[[Path], bool]) -> None:
    """Take a damaged file out of a version that is not open: it is looked for when that is opened again."""
    if is_it(paths.tree / path):
        with disk_errors(f"version {paths.folder.name[:12]}"):
            paths.complete.unlink(missing_ok=True)
            (paths.tree / path).unlink(missing_ok=True)

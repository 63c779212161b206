"""Shares the room of the cache folders between datasets: their use, their need, and which one is evicted for which."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from stoker_api.meta import format_bytes
from stoker_api.names import Reason
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.packing_decision import Shortage
from stoker_sidecar.fetcher.ondisk.telemetry import Notices
from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.fetcher.space.folders import CacheDisks
from stoker_sidecar.fetcher.space.room import Asker, Idle, Room, may_return, victims
from stoker_sidecar.version.layout import DatasetPaths

# Seconds until the requester continues without an answer: the dataset may be busy with a slow disk.
_PATIENCE = 60.0


class LastUse:
    """When a dataset was last used here, and whether it was dropped to make room.

    Both survive a restart, as files on the disk.

    ``evicted``: why it was dropped, a sentence; empty when it was not.
    """

    def __init__(self, folders: CacheDisks, uid: str) -> None:
        self._folders = folders
        self._uid = uid
        self._touch = False
        self.evicted = ""

    def load(self) -> None:
        """Read the markers. Blocks."""
        with suppress(OSError):
            self.evicted = self._home().evicted.read_text()

    def use(self) -> None:
        """Note that it is read or mounted now. Fast; the next ``save`` writes it to the disk."""
        self._touch = True

    def save(self) -> None:
        """Date the marker when it was used since the last time. Blocks."""
        if self._touch:
            self._touch = False
            with suppress(OSError):  # the date of last use is worth no error
                self._home().used.touch()

    def used_at(self) -> float:
        """Return seconds since 1970; 0 when it never was used. Blocks for a moment."""
        if self._touch:
            return time.time()
        try:
            return self._home().used.stat().st_mtime
        except OSError:
            return 0.0

    def drop(self, why: str) -> None:
        """Note that it was evicted from this disk. Blocks for a moment. Raises OSError."""
        self.evicted = why
        self._home().evicted.write_text(why)

    def allow(self) -> None:
        """Note that it may be warmed again. Blocks for a moment."""
        if self.evicted:
            self.evicted = ""
            with suppress(OSError):  # at worst it waits again after a restart, until it is used
                self._home().evicted.unlink(missing_ok=True)

    def _home(self) -> DatasetPaths:
        return self._folders.home(self._uid).dataset


@dataclass
class EvictionRequest:
    """A request that a dataset drop one of its versions.

    Another dataset makes the request, and the loop of this dataset performs it, so that the two never conflict.

    ``why``: a sentence for people.
    """

    digest: str
    why: str
    _outcome: "asyncio.Future[bool]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def done(self) -> None:
        """Answer that it was dropped."""
        self._settle(True)

    def refuse(self) -> None:
        """Answer that it is in use, or already gone."""
        self._settle(False)

    async def outcome(self) -> bool:
        """Wait for the answer, True when it was dropped; False when that took too long."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._outcome
        except TimeoutError:
            return False

    def _settle(self, dropped: bool) -> None:
        if not self._outcome.done():
            self._outcome.set_result(dropped)


class SpaceBudget:
    """The use of the cache folders by one dataset. It only computes, and does no work on the disk.

    ``config`` and ``held`` (digests that pods of this node have mounted) are the latest from the operator and the
    agent. ``versions``: the open ones, by digest. ``wake`` is called when the dataset is asked to drop something.
    """

    def __init__(self, config: NodeDataset, folders: CacheDisks, wake: Callable[[], None]) -> None:
        self.config = config
        self.held: frozenset[str] = frozenset()
        self.versions: dict[str, CachedVersion] = {}
        self.last_use = LastUse(folders, config.uid)
        self._folders = folders
        self._wake = wake
        self._request: EvictionRequest | None = None
        self.asked = asyncio.Event()  # set while a request waits

    @property
    def used_bytes(self) -> int:
        """Bytes on the disks that count against the quota."""
        return sum(version.kept_bytes for version in self.versions.values())

    def room(self, disk: CacheDisk) -> Room:
        """Return the dataset's room in this folder."""
        used = reserved = 0
        for version in self.versions.values():  # one loop, and no generators: it is asked for several times a file
            used += version.kept_bytes
            reserved += version.reserved_bytes
        return Room(used, self.config.quota_bytes, disk.free() - reserved, disk.free_inodes())

    def need(self, version: CachedVersion) -> int:
        """Return the bytes that the version will still take."""
        if version.chosen.selection is not None:
            room = None if self.config.quota_bytes is None else max(0, self.config.quota_bytes - version.kept_bytes)
            return version.chosen.bytes_left if room is None else min(room, version.chosen.bytes_left)
        # Of files with compressed copies only these are on the disk.
        size, quota = (
            version.manifest.info.bytes - version.unpacked_bytes + version.packed_bytes,
            self.config.quota_bytes,
        )
        return max(0, (size if quota is None else min(size, quota)) - version.kept_bytes)

    def lacks(self, version: CachedVersion) -> int:
        """Return the bytes that the version will still take and that its folder has no room for."""
        return self.need(version) - self._free_for(version)

    def outstanding(self, disk: CacheDisk) -> int:
        """Return the bytes that the dataset is still going to fetch onto this folder."""
        version = self.versions.get(self.config.version)
        if version is None or version.complete or self.config.paused or not self.config.eager or self.last_use.evicted:
            return 0
        return self.need(version) if self.disk_of(version) is disk else 0

    def may_warm(self, version: CachedVersion, promised: int) -> bool:
        """Return True if it may be warmed. An evicted dataset waits until it is used, or fits without evictions.

        ``promised``: bytes that other datasets are still going to fetch onto the same folder.
        """
        if not self.last_use.evicted:
            return True
        free = self._free_for(version) - promised
        if may_return(self.need(version), free, held=bool(self.held), pinned=self.config.pinned):
            self.last_use.allow()
        return not self.last_use.evicted

    def disk_of(self, version: CachedVersion) -> CacheDisk:
        """Return the folder that the version lies in."""
        return self._folders.disk_of(version.paths)

    def idle_on(self, disk: CacheDisk) -> Iterator[Idle]:
        """Yield the open versions on a folder as candidates for eviction. Versions in use are included and marked."""
        used_at, versions = self.last_use.used_at(), dict(self.versions)
        for digest, version in versions.items():
            if self.disk_of(version) is not disk:
                continue
            shared = sum(other.shared_bytes for name, other in versions.items() if name != digest)
            yield Idle(
                uid=self.config.uid,
                digest=digest,
                size=max(0, version.kept_bytes - shared),
                priority=self.config.priority,
                used_at=used_at,
                pinned=self.config.pinned,
                busy=self._is_held(digest) or version.waiting_readers > 0,
                current=digest == self.config.version,
            )

    async def ask_to_drop(self, digest: str, why: str) -> bool:
        """Ask the dataset to drop a version, which its loop does. Return True if it was dropped.

        False if a pod uses it by then.
        """
        self._request = request = EvictionRequest(digest, why)
        self.asked.set()
        self._wake()
        return await request.outcome()

    def take_request(self) -> EvictionRequest | None:
        """Return the version that the dataset was asked to drop, for the caller to drop.

        None without a request, or if the version is in use.
        """
        request, self._request = self._request, None
        self.asked.clear()
        if request is None:
            return None
        version = self.versions.get(request.digest)
        if version is None or version.waiting_readers or self._is_held(request.digest):
            request.refuse()
            return None
        return request

    def _free_for(self, version: CachedVersion) -> int:
        disk = self.disk_of(version)
        disk.forget()
        return self.room(disk).free

    def _is_held(self, digest: str) -> bool:
        """Return True if pods use it. A mount of a dataset may read through its current version, too."""
        if digest == self.config.version:
            return bool(self.held)
        return digest in self.held or any(digest == older.version for older in self.config.older)


@dataclass(frozen=True)
class VersionSpace:
    """The place for the files of one version: disk queries of its downloads."""

    budget: SpaceBudget
    folders: CacheDisks
    version: CachedVersion
    disk: CacheDisk

    def room(self) -> Room:
        """Return the room for more files of the version."""
        return self.budget.room(self.disk)

    def shortage(self, source_speed: float) -> Shortage:
        """Return the shortage of room for the version without compressed copies."""
        version, quota = self.version, self.budget.config.quota_bytes
        kept = version.kept_bytes + version.shared_bytes
        room = kept + max(0, self.room().free)
        return Shortage(version.manifest.info.bytes, room if quota is None else min(room, quota), source_speed)

    def transient_folder(self) -> Path:
        """Return the folder for files that are read through."""
        return self.folders.transient_folder(self.version.paths)


class Evictor:
    """Decides between the datasets of a node which one gets room. It sees only their budgets."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._budgets: dict[str, SpaceBudget] = {}
        self._evicting = asyncio.Lock()  # one asker at a time, so that two do not both count on the same room

    def add(self, budget: SpaceBudget) -> None:
        """Add a dataset."""
        self._budgets[budget.config.uid] = budget

    def remove(self, uid: str) -> None:
        """Forget a dataset."""
        self._budgets.pop(uid, None)

    def promised(self, asker: SpaceBudget, disk: CacheDisk) -> int:
        """Return the bytes that other datasets than the asker are still going to fetch onto a folder."""
        return sum(budget.outstanding(disk) for budget in self._budgets.values() if budget is not asker)

    async def make_room(self, asker: SpaceBudget, disk: CacheDisk, need: int) -> None:
        """Drop idle versions on a folder so that ``need`` more bytes of the asker fit; enough, or none."""
        async with self._evicting:
            wanted = Asker(asker.config.uid, asker.config.priority, bool(asker.held))
            idle = [version for budget in self._budgets.values() for version in budget.idle_on(disk)]
            for victim in victims(need, wanted, idle):
                dropped = self._budgets.get(victim.uid)
                if dropped is None:
                    continue
                why = _sentence(dropped, asker, victim)
                if await dropped.ask_to_drop(victim.digest, why):
                    disk.forget()
                    self._notices.tell(victim.uid, Reason.EVICTED, why)


def _sentence(dropped: SpaceBudget, asker: SpaceBudget, victim: Idle) -> str:
    of = "" if victim.current else f"version {victim.digest[:12]} of "
    cause = "which pods of this node use" if asker.held else f"which has priority {asker.config.priority}"
    back = (
        "; it is fetched again when a pod uses it here, or when it fits next to the other Datasets"
        if victim.current
        else ""
    )
    return (
        f"{of}{dropped.config.namespace}/{dropped.config.name} ({format_bytes(victim.size)}) "
        f"was dropped from this node to make room for {asker.config.namespace}/{asker.config.name}, {cause}{back}"
    )

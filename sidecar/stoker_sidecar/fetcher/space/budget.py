"""What a dataset takes of its cache folder: the room that it has, what it asks others to give up, and what it gives up itself."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from stoker_api.nodecache import NodeDataset
from stoker_sidecar.fetcher.cached_version import CachedVersion
from stoker_sidecar.fetcher.context import NodeContext
from stoker_sidecar.fetcher.core.room import Room, may_return
from stoker_sidecar.fetcher.space.cache_disk import CacheDisk
from stoker_sidecar.fetcher.versions import OpenVersions
from stoker_sidecar.linux.files import disk_errors
from stoker_sidecar.version.layout import DatasetPaths


class Stay:
    """``home``: where the dataset's markers lie now. ``evicted``: why it was dropped, a sentence; empty when it was not."""

    def __init__(self, home: Callable[[], DatasetPaths]) -> None:
        self._home = home
        self._touch = False
        self.evicted = ""

    def load(self) -> None:
        """Read the markers. Blocks."""
        with suppress(OSError):
            self.evicted = self._home().evicted.read_text()

    def use(self) -> None:
        """It is read or mounted now; quick, noted on the disk at the next ``save``."""
        self._touch = True

    def save(self) -> None:
        """Date the marker when it was used since the last time. Blocks."""
        if self._touch:
            self._touch = False
            with suppress(OSError):  # the date of last use is worth no error
                self._home().used.touch()

    def used_at(self) -> float:
        """Seconds since 1970; 0 when it never was. Blocks for a moment."""
        if self._touch:
            return time.time()
        try:
            return self._home().used.stat().st_mtime
        except OSError:
            return 0.0

    def drop(self, why: str) -> None:
        """It is dropped from this disk. Blocks for a moment. Raises OSError."""
        self.evicted = why
        self._home().evicted.write_text(why)

    def allow(self) -> None:
        """It may be warmed again. Blocks for a moment."""
        if self.evicted:
            self.evicted = ""
            with suppress(OSError):  # at worst it waits once more after a restart, until it is used
                self._home().evicted.unlink(missing_ok=True)


# Seconds until the asker goes on without: the dataset may be busy with a slow disk.
_PATIENCE = 60.0


@dataclass
class Departure:
    """``why``: a sentence for people."""

    digest: str
    why: str
    _outcome: "asyncio.Future[bool]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def done(self) -> None:
        """It was dropped."""
        self._settle(True)

    def refuse(self) -> None:
        """It is in use, or gone already."""
        self._settle(False)

    async def outcome(self) -> bool:
        """Whether it was dropped; False when that took too long."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._outcome
        except TimeoutError:
            return False

    def _settle(self, dropped: bool) -> None:
        if not self._outcome.done():
            self._outcome.set_result(dropped)


@dataclass(frozen=True)
class Wish:
    """What the operator wants of the dataset, and which of its versions pods of this node have mounted."""

    config: NodeDataset
    held: frozenset[str]


class Tenancy:
    """``wish``: as it is at the moment."""

    def __init__(self, node: NodeContext, versions: OpenVersions, stay: Stay, wish: Callable[[], Wish]) -> None:
        self._node = node
        self._versions = versions
        self._stay = stay
        self._wish = wish
        self._departure: Departure | None = None

    @property
    def used_bytes(self) -> int:
        """Bytes on the disks that count against the quota."""
        return sum(fetching.version.kept_bytes for fetching in self._versions.fetchings.values())

    def room(self, disk: CacheDisk) -> Room:
        """What the dataset may still put on this folder."""
        reserved = sum(fetching.version.reserved_bytes for fetching in self._versions.fetchings.values())
        return Room(self.used_bytes, self._wish().config.quota_bytes, disk.free() - reserved)

    def need(self, version: CachedVersion) -> int:
        """Bytes that the version will still take."""
        size, quota = version.manifest.info.bytes, self._wish().config.quota_bytes
        return max(0, (size if quota is None else min(size, quota)) - version.kept_bytes)

    def outstanding(self, disk: CacheDisk) -> int:
        """Bytes that the dataset is still going to fetch onto this folder."""
        config = self._wish().config
        fetching = self._versions.fetchings.get(config.version)
        if fetching is None or fetching.version.complete or config.paused or not config.eager or self._stay.evicted:
            return 0
        return self.need(fetching.version) if self._disk(fetching.version) is disk else 0

    def may_warm(self, version: CachedVersion) -> bool:
        """Whether it may be warmed: what was dropped waits until it is used, or drives nothing out."""
        if not self._stay.evicted:
            return True
        config, disk = self._wish().config, self._disk(version)
        disk.forget()
        free = self.room(disk).free - self._node.house.promised(config.uid, version.paths)
        if may_return(self.need(version), free, held=bool(self._wish().held), pinned=config.pinned):
            self._stay.allow()
        return not self._stay.evicted

    async def make_room(self, version: CachedVersion) -> None:
        """Have idle versions dropped if this one does not fit."""
        disk = self._disk(version)
        disk.forget()
        short = self.need(version) - self.room(disk).free
        if short > 0:
            await self._node.house.make_room(self._wish().config.uid, version.paths, short)

    def ask_to_depart(self, digest: str, why: str) -> Departure:
        """Another dataset needs the room: ``depart_if_asked`` decides, when this one's own work allows it."""
        self._departure = Departure(digest, why)
        return self._departure

    async def depart_if_asked(self) -> None:
        """Drop the version, unless a pod uses it by now."""
        departure, self._departure = self._departure, None
        if departure is None:
            return
        digest, wish = departure.digest, self._wish()
        current, fetching = digest == wish.config.version, self._versions.fetchings.get(digest)
        if fetching is None or fetching.waiting_readers or digest in wish.held or (current and wish.held):
            departure.refuse()
            return
        if current:
            with disk_errors("the note of why it was dropped"):
                self._stay.drop(departure.why)
            await self._versions.empty(digest)
        else:
            await self._versions.drop(digest)
        departure.done()

    def _disk(self, version: CachedVersion) -> CacheDisk:
        return self._node.folders.disk_of(version.paths)

"""Watches trees that pods mount without FUSE: gives the observer its trees, and sets marks at its request."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from errno import ENODEV
from pathlib import Path
from typing import NamedTuple

from stoker_api.datasets.dataset import MountMode
from stoker_sidecar.agent.observation.access_server import AccessClient
from stoker_sidecar.agent.observation.marked_tree import MarkedTree, sample_folders
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.mounts import overlay
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths
from stoker_sidecar.volumes.core.publish import Published
from stoker_sidecar.volumes.synchronization import Changes
from stoker_sidecar.volumes.versions_on_disk import CacheFolders

# Each is a fanotify group, and the kernel allows a user 128 (fs.fanotify.max_user_groups).
MOST_WATCHES = 32


class TreeWatch(NamedTuple):
    """A tree to watch: a version, as its folder or its overlay. ``folder`` is the version's."""

    uid: str
    digest: str
    mode: MountMode
    folder: Path


def wanted_watches(records: Iterable[Published], off: Collection[str]) -> frozenset[TreeWatch]:
    """Return the trees to watch: those mounted without FUSE, unless the Dataset's UID is in ``off``.

    Beyond 32 trees, those of the lowest UIDs.
    """
    rows = {
        TreeWatch(row.uid, row.version, row.mode, row.folder)
        for row in records
        if row.mode is not MountMode.FUSE and row.uid not in off
    }
    return frozenset(sorted(rows)[:MOST_WATCHES])


log = logging.getLogger(__name__)
# Seconds before a failed watch is retried.
_TRY_AGAIN = 10.0
# Seconds before marks are renewed: an overlay that was remounted at the same place has none.
_RENEW = 20.0


class TreeWatching:
    """The watched trees, by number. All methods run in one event loop; kernel calls run in threads.

    ``records`` returns the mounted volumes. ``off`` returns UIDs of Datasets without observation. ``changes`` covers
    both. ``mount_root`` is the folder of the overlays. ``clock`` is monotonic, in seconds. Without an observer there
    are no marks.
    """

    def __init__(
        self,
        records: Callable[[], Iterable[Published]],
        off: Callable[[], Collection[str]],
        changes: Changes,
        folders: CacheFolders,
        mount_root: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._off = off
        self._changes = changes
        self._folders = folders
        self._mount_root = mount_root
        self._clock = clock
        self._observer: AccessClient | None = None
        self._marked: AccessClient | None = None  # the observer for whom marks are on
        self._asked = self._to_answer = False
        self._told: AccessClient | None = None
        self._next = 1
        self._trees: dict[int, tuple[TreeWatch, MarkedTree]] = {}
        self._refused: dict[TreeWatch, tuple[float, str]] = {}
        self._renewed = clock()
        self._poked = asyncio.Event()

    def watch_of(self, number: int) -> TreeWatch | None:
        """Return the watched tree with that number."""
        tree = self._trees.get(number)
        return tree and tree[0]

    @property
    def refused(self) -> Mapping[TreeWatch, str]:
        """The mounted trees that the kernel cannot report, and the reasons."""
        return {watch: why for watch, (_, why) in self._refused.items()}

    def set_observer(self, observer: AccessClient | None) -> None:
        """Record a new observer, or its end."""
        self._observer, self._asked = observer, False
        self._poked.set()

    def ask(self, on: bool) -> None:
        """Record the observer's request to set or clear marks."""
        self._asked, self._to_answer = on, True
        self._poked.set()

    async def run(self) -> None:
        """Maintain watches and marks until cancelled; then clear all marks."""
        try:
            while True:
                token = self._changes.token()
                self._poked.clear()
                await self._watch_wanted()
                await self._mark_as_asked()
                await self._changed(token)
        finally:
            for number in tuple(self._trees):
                self._drop(number)

    async def _changed(self, token: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (token, self._poked)]
        try:
            again = _TRY_AGAIN if self._refused else None
            await asyncio.wait(waits, timeout=again, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _watch_wanted(self) -> None:
        wanted = wanted_watches(self._records(), self._off()) if self._observer is not None else frozenset()
        now = self._clock()
        recent = ((watch, row) for watch, row in self._refused.items() if now - row[0] < _TRY_AGAIN)
        self._refused = {watch: row for watch, row in recent if watch in wanted}
        for number, (watch, _) in tuple(self._trees.items()):
            if watch not in wanted:
                self._drop(number)
        known = {watch for watch, _ in self._trees.values()} | self._refused.keys()
        for watch in sorted(wanted - known):
            await self._add(watch)
        if self._told is not self._observer:
            self._told = self._observer
            for number in self._trees:
                self._give(number)

    async def _add(self, watch: TreeWatch) -> None:
        try:
            tree = await in_thread(self._open, watch)
        except (OSError, SidecarError) as error:
            log.info("dataset %s, version %s, is not watched as %s for now: %s", *watch[:3], error)
            self._refused[watch] = self._clock(), str(error)
            return
        number, self._next = self._next, self._next + 1
        self._trees[number] = watch, tree
        if self._marked is not None:
            await in_thread(tree.put_on)
        if self._told is self._observer:
            self._give(number)

    def _open(self, watch: TreeWatch) -> MarkedTree:
        paths = VersionPaths(watch.folder)
        sample = self._folders.go_through(sample_folders, paths)
        if watch.mode is MountMode.NATIVE:
            return MarkedTree(paths.root, paths.tree, sample)
        mountpoint = self._mount_root / watch.uid / (watch.digest + overlay.SUFFIX)
        if not mountpoint.is_mount():  # already recorded, and mounted in a moment
            raise OSError(ENODEV, "the overlay is not mounted", str(mountpoint))
        return MarkedTree(mountpoint, mountpoint, sample)

    def _give(self, number: int) -> None:
        watch, tree = self._trees[number]
        if self._observer is not None:
            manifest = str(VersionPaths(watch.folder).manifest)
            packet = {"op": "watch", "watch": number, "manifest": manifest, "share": tree.share}
            self._observer.send(packet, (tree.group, tree.table))

    def _drop(self, number: int) -> None:
        _, tree = self._trees.pop(number)
        tree.close()
        if self._observer is not None:
            self._observer.send({"op": "unwatch", "watch": number})

    async def _mark_as_asked(self) -> None:
        wanted = self._observer if self._asked else None
        answer, self._to_answer, used = self._to_answer, False, 0.0
        if wanted is not self._marked or self._clock() - self._renewed > _RENEW:
            self._marked, self._renewed = wanted, self._clock()
            trees = [tree for _, tree in self._trees.values()]
            used = await in_thread(_put_on if wanted is not None else _take_off, trees)
        if answer and self._observer is not None:
            self._observer.send({"op": "marked", "on": wanted is not None, "cpu": used})


def _put_on(trees: Iterable[MarkedTree]) -> float:
    return sum(tree.put_on() for tree in trees)


def _take_off(trees: Iterable[MarkedTree]) -> float:
    return sum(tree.take_off() for tree in trees)

"""Keeps the memory wishes of mounted Datasets, within the node's limit, with fair shares."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from stoker_api.datasets.cache_memory import NodeMemory, PinnedMemory
from stoker_api.meta import format_bytes
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.fetcher.datasets.dataset import DatasetCache
from stoker_sidecar.fetcher.node.memory_shares import (
    NAME_BYTES,
    PinRoom,
    PinWish,
    ReclaimCounters,
    fair_shares,
    is_sweep_due,
    parse_reclaim,
    parts_of,
    pin_room,
    steady_room,
)
from stoker_sidecar.fetcher.node.pinned_tree import FILE, FOLDER, PinBudget, PinnedTree
from stoker_sidecar.fetcher.ondisk.cached_version import CachedVersion
from stoker_sidecar.fetcher.ondisk.file_states import State
from stoker_sidecar.fetcher.pages.core.page_room import MemoryFigures
from stoker_sidecar.linux.memory_locks import most_names, most_ranges, raise_limits, reclaim_text
from stoker_sidecar.threads import in_thread
from stoker_sidecar.version.layout import VersionPaths

_log = logging.getLogger(__name__)
_IN_TREE = bytes(
    {State.HERE: FILE, State.FOLDER: FOLDER}.get(State(one), 0) if one in list(State) else 0 for one in range(256)
)


@dataclass(frozen=True)
class PinSettings:
    """Limits of pinned memory on this node, in bytes, and the sources of its figures. Threads call the functions."""

    allowed: int = 0
    reclaim: Callable[[], str] = reclaim_text
    mappings: Callable[[], int] = most_ranges
    descriptors: Callable[[], int] = most_names


@dataclass(frozen=True)
class PinSubject:
    """One mounted version of a Dataset that asks for memory, at this moment.

    ``here``: the files in its tree. ``order``: the inodes whose contents are kept, in order. ``chosen``: identifies
    that order. ``wanted``: returns True while the request holds; threads call it.
    """

    uid: str
    paths: VersionPaths
    wish: PinWish
    here: bytes
    order: Callable[[], Iterator[int]]
    chosen: str
    wanted: Callable[[], bool]


class Pinning:
    """Continues the pinning of datasets, one step for each Dataset at a time; for one event loop.

    Call ``start_round`` every few seconds, and ``close`` at the end.
    """

    def __init__(self, settings: PinSettings, memory: Callable[[], MemoryFigures], clock: Callable[[], float]) -> None:
        self._settings = settings
        self._memory = memory
        self._clock = clock
        self._trees: dict[VersionPaths, tuple[str, PinnedTree]] = {}
        self._chosen: dict[VersionPaths, str] = {}
        self._troubles: dict[str, str] = {}  # by uid
        self._wishes: dict[str, PinWish] = {}
        self._room = PinRoom(0)
        self._shares: dict[str, int] = {}
        self._swept = clock()
        self._counters = ReclaimCounters()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        if settings.allowed:
            raise_limits()

    def start_round(self, datasets: Mapping[str, DatasetCache]) -> None:
        """Start a round, unless one runs."""
        if not self._settings.allowed or (self._task is not None and not self._task.done()):
            return
        subjects = [one for dataset in datasets.values() for one in subjects_of(dataset)]
        if subjects or self._trees:
            self._task = asyncio.create_task(self._round(subjects, datasets))
        else:
            self._wishes, self._shares = {}, {}

    async def close(self) -> None:
        """Stop soon, and let the kernel have all of it back."""
        self._closed = True
        if self._task is not None:
            await asyncio.wait([self._task])
        await self._release_unwanted(())

    def status(self) -> NodeMemory:
        """Describe the node."""
        return NodeMemory(
            allowed_bytes=self._settings.allowed, room_bytes=self._room.bytes, pinned_bytes=self._pinned()
        )

    def status_of(self, dataset: DatasetCache) -> PinnedMemory | None:
        """Describe a Dataset. None if it requests no memory."""
        config = dataset.config
        if not (config.memory_names or config.memory_bytes):
            return None
        wish = self._wishes.get(dataset.uid)
        if wish is None:
            off = pin_room(MemoryFigures(0, 0), 0, 0).why if not self._settings.allowed else ""
            return PinnedMemory(message=off)
        trees = [tree for uid, tree in self._trees.values() if uid == dataset.uid]
        return PinnedMemory(
            wanted_bytes=wish.contents,
            bytes=sum(tree.contents for tree in trees),
            locked_bytes=sum(tree.locked for tree in trees),
            wanted_names=wish.names // NAME_BYTES,
            names=sum(tree.names for tree in trees),
            message=self._troubles.get(dataset.uid) or self._short(dataset.uid, wish),
        )

    def _short(self, uid: str, wish: PinWish) -> str:
        share = self._shares.get(uid)
        if share is None or share >= wish.bytes:
            return ""
        return (
            f"{format_bytes(share)} of the {format_bytes(wish.bytes)} that it asks for stay in memory: {self._room.why}"
        )

    def _pinned(self) -> int:
        return sum(_cost(tree) for _, tree in self._trees.values())

    async def _round(self, subjects: list[PinSubject], datasets: Mapping[str, DatasetCache]) -> None:
        try:
            more = True
            while more and not self._closed:
                await self._release_unwanted(subjects)
                await self._share(subjects)
                more = await self._fit(subjects)
                subjects = [one for dataset in datasets.values() for one in subjects_of(dataset)]
            await self._sweep()
        except (OSError, KeyError, ValueError) as error:  # the kernel's figures cannot be read
            _log.warning("pinned memory is not maintained: %s", error)

    async def _share(self, subjects: Iterable[PinSubject]) -> None:
        wishes: dict[str, PinWish] = {}
        for one in subjects:
            before = wishes.get(one.uid, PinWish(one.wish.namespace))
            names, contents = before.names + one.wish.names, before.contents + one.wish.contents
            wishes[one.uid] = PinWish(one.wish.namespace, names, contents)
        room = pin_room(await in_thread(self._memory), self._settings.allowed, self._pinned())
        self._room = steady_room(room, self._room)
        self._wishes, self._shares = wishes, fair_shares(self._room.bytes, wishes)

    async def _release_unwanted(self, subjects: Iterable[PinSubject]) -> None:
        wanted = {one.paths for one in subjects}
        for paths in self._trees.keys() - wanted:
            _, tree = self._trees.pop(paths)
            self._chosen.pop(paths, None)
            await in_thread(tree.release)
        self._troubles = {uid: why for uid, why in self._troubles.items() if uid in {one.uid for one in subjects}}

    async def _fit(self, subjects: Iterable[PinSubject]) -> bool:
        """Go a step with each; return whether one has more to do."""
        left, more = dict(self._shares), False
        for one in subjects:
            if self._closed:
                return False
            share = min(left[one.uid], one.wish.bytes)
            left[one.uid] -= share
            names, contents = parts_of(share, one.wish)
            more |= await self._step(one, PinBudget(contents, names // NAME_BYTES, *self._free()))
        return more

    async def _step(self, one: PinSubject, budget: PinBudget) -> bool:
        """Go a step with one version; its trouble is its Dataset's alone. Return whether it has more to do."""
        if one.paths not in self._trees:
            self._trees[one.paths] = one.uid, PinnedTree(one.paths, len(one.here))
        _, tree = self._trees[one.paths]
        if self._chosen.get(one.paths, one.chosen) != one.chosen:  # other files go first now
            await in_thread(tree.release)
        self._chosen[one.paths] = one.chosen
        try:
            more = await in_thread(tree.fit, one.here, one.order(), budget, self._guard(one.wanted))
        except (SidecarError, OSError, LookupError) as error:
            self._trouble(one.uid, error)
            return False
        self._troubles.pop(one.uid, None)
        return more

    def _trouble(self, uid: str, error: Exception) -> None:
        why = f"its files cannot be kept in memory: {error}"
        if self._troubles.get(uid) != why:
            _log.warning("dataset %s: %s", uid, why)
        self._troubles[uid] = why

    def _free(self) -> tuple[int, int]:
        """Return the numbers of free mappings and descriptors."""
        trees = [tree for _, tree in self._trees.values()]
        mappings = self._settings.mappings() - sum(tree.mappings for tree in trees)
        return max(0, mappings), max(0, self._settings.descriptors() - sum(tree.descriptors for tree in trees))

    def _guard(self, wanted: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: not self._closed and wanted()

    async def _sweep(self) -> None:
        """Sweep watched files if the kernel has reclaimed memory since the last time."""
        now, since = self._clock(), self._clock() - self._swept
        counters = parse_reclaim(await in_thread(self._settings.reclaim))
        contents = is_sweep_due(since, self._counters.pages, counters.pages)
        names = is_sweep_due(since, self._counters.names, counters.names)
        if not (contents or names):
            return
        self._swept, self._counters = now, counters
        for uid, tree in list(self._trees.values()):
            try:
                again = await in_thread(tree.sweep, contents=contents, names=names, go_on=self._guard(lambda: True))
            except (SidecarError, OSError, LookupError) as error:
                self._trouble(uid, error)
                continue
            if again:
                _log.info("%.1f MiB of %s were read again", again / 2**20, tree.paths.folder.name[:12])


def _cost(tree: PinnedTree) -> int:
    return tree.contents + tree.names * NAME_BYTES


def subjects_of(dataset: DatasetCache) -> Iterator[PinSubject]:
    """Yield the mounted, open versions of a Dataset, the current one first, if it requests memory."""
    config = dataset.config
    if not (config.memory_names or config.memory_bytes):
        return
    mounted = [digest for digest in dataset.versions.fetchings if digest in dataset.held]
    left = config.memory_bytes or 0
    for digest in sorted(mounted, key=lambda one: (one != config.version, one)):
        version = dataset.versions.fetchings[digest].version
        contents = min(left, version.warm_bytes)
        left -= contents
        yield _subject(dataset, digest, version, contents)


def _subject(dataset: DatasetCache, digest: str, version: CachedVersion, contents: int) -> PinSubject:
    config, here = (
        dataset.config,
        bytes(version.states[:1].translate(bytes(256)) + version.states[1:].translate(_IN_TREE)),
    )
    names = (len(here) - here.count(0)) * NAME_BYTES if config.memory_names else 0
    selection = version.chosen.selection

    def order() -> Iterator[int]:
        if selection is not None:
            yield from selection.in_order(here)
        yield from range(1, len(here))

    def wanted() -> bool:
        fetching = dataset.versions.fetchings.get(digest)
        return fetching is not None and fetching.version is version and digest in dataset.held

    chosen = selection.digest if selection is not None else ""
    wish = PinWish(config.namespace, names, contents)
    return PinSubject(dataset.uid, version.paths, wish, here, order, chosen, wanted)

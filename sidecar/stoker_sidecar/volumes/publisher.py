"""Publishes and unpublishes volumes: waits for plan and manifest, mounts once, remembers, heals and swaps."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_api.nodecache import NodeMount
from stoker_sidecar.errors import CacheError, VolumeCode, VolumeError
from stoker_sidecar.volumes.core.mount_plan import is_settled, users
from stoker_sidecar.volumes.core.publish import (
    Bind,
    Published,
    PublishRequest,
    Refuse,
    VersionOnDisk,
    VolumeReport,
    Wait,
    decide,
    mounted_row,
    pending_row,
    published,
    report,
)
from stoker_sidecar.volumes.locks import KeyedLocks
from stoker_sidecar.volumes.mounter import Mounter
from stoker_sidecar.volumes.pending import Wish, Wishes
from stoker_sidecar.volumes.ports import MountTable, Plan, Versions

log = logging.getLogger(__name__)

# A manifest can land on the disk with no word in plan or status, so a waiting call looks by itself this often.
LOOK_AGAIN_SECONDS = 1.0


class Publisher:
    """The volumes of a node. All methods run in one event loop; calls for one target exclude each other.

    ``wait_seconds``: how long a publish waits for plan and manifest before it answers UNAVAILABLE; well under the 2
    minutes that the kubelet gives a call. ``on_change`` is called after ``rows()`` changed; ``clock`` counts seconds.
    """

    def __init__(
        self,
        plan: Plan,
        versions: Versions,
        table: MountTable,
        mounter: Mounter,
        *,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wait_seconds: float = 50.0,
    ) -> None:
        self._plan = plan
        self._versions = versions
        self._table = table
        self._mounter = mounter
        self._on_change = on_change
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._wishes = Wishes(clock)
        self._targets = KeyedLocks()
        self._running: set[asyncio.Task[None]] = set()
        self._dead: set[Path] = set()  # targets whose mount is dead and could not be mounted again yet

    async def publish(self, request: PublishRequest) -> None:
        """Return when the dataset is mounted at the target, now or before. Raises VolumeError."""
        if self._table.get(request.target) is not None:
            return await self._to_the_end(self._again(request))
        wish = self._wishes.enter(request)
        self._on_change()
        try:
            choice = await self._choose(request)
            await self._to_the_end(self._mount(wish, choice))
        except VolumeError as error:
            # The kubelet asks again after UNAVAILABLE, and the wish keeps the dataset in the plan until then.
            if error.code is not VolumeCode.UNAVAILABLE and self._wishes.is_current(wish):
                self._wishes.drop(request.target)
            raise
        finally:
            self._wishes.leave(wish)
            self._on_change()

    async def unpublish(self, target: Path) -> None:
        """Return when nothing of ours is at the target, now or before. Raises VolumeError."""
        self._wishes.drop(target)
        await self._to_the_end(self._take_off(target))

    async def settle(self, uid: str, digest: str) -> bool:
        """Give every volume of a version the best mount that is possible now, also one that is dead; whether all have it."""
        on_disk = await self._find(uid, digest)
        if on_disk is None:
            return True  # nothing better can be said or done; what is mounted stays
        sources = self._mounter.sources
        sources.prepare((uid, digest), on_disk)
        wanted = sources.best((uid, digest), on_disk)
        for record in users(self._table.all(), (uid, digest)):
            target = record.request.target
            if (
                target in self._dead
            ):  # what it lacked may be here by now: a version that lay in memory of an earlier pod
                await self._to_the_end(self._restore_one(target))
                self._on_change()
            elif not is_settled(record, on_disk, wanted):
                await self._to_the_end(self._swap_one(target, on_disk, wanted))
        after = users(self._table.all(), (uid, digest))
        return all(is_settled(row, on_disk, wanted) and row.request.target not in self._dead for row in after)

    async def tidy(self) -> None:
        """Remove metadata layers that are of no more use."""
        for version in await self._mounter.sources.built():
            await self._mounter.sources.drop_spent_layer(version, await self._find(*version))

    async def restore(self) -> None:
        """After a start: forget volumes whose pods are gone, mount again what lost its mount or server, show all in the pods."""
        await asyncio.gather(*(self._restore_one(record.request.target) for record in self._table.all()))
        await self._mounter.sources.clear_leftovers()
        self._on_change()

    async def report(self, volume_id: str, path: Path) -> VolumeReport:
        """Size and health of a published volume. Raises VolumeError (NOT_FOUND)."""
        record = self._table.get(path)
        if record is None or record.request.volume_id != volume_id:
            raise VolumeError(VolumeCode.NOT_FOUND, f"the volume {volume_id} is not published at {path} on this node")
        return report(record, await self._mounter.is_dead(path), self._plan.status_of(record.uid))

    def rows(self) -> tuple[NodeMount, ...]:
        """NodeCache.status.mounts: pending wishes and mounted volumes, one row an id."""
        rows = [pending_row(request) for request in self._wishes.current()]
        rows += [mounted_row(record) for record in self._table.all()]
        return tuple({row.volume_id: row for row in rows}.values())

    def versions(self) -> frozenset[tuple[str, str]]:
        """Versions that are mounted: uid of the Dataset, digest."""
        return frozenset((record.uid, record.version) for record in self._table.all())

    def held(self, uid: str) -> tuple[str, ...]:
        """Versions of a dataset that pods of this node have mounted: they must stay on the disk."""
        return tuple(sorted({record.version for record in self._table.all() if record.uid == uid}))

    def held_versions(self) -> dict[str, tuple[str, ...]]:
        """Return what must stay on the disk: by uid of the Dataset, the versions that pods of this node have mounted."""
        return {uid: self.held(uid) for uid in {record.uid for record in self._table.all()}}

    async def _choose(self, request: PublishRequest) -> Bind:
        deadline = self._clock() + self._wait_seconds
        while True:
            match await self._decide(request):
                case Bind() as choice:
                    return choice
                case Refuse(code, reason):
                    raise VolumeError(code, reason)
                case Wait(reason):
                    now = self._clock()
                    if now >= deadline:
                        raise VolumeError(VolumeCode.UNAVAILABLE, f"waited {self._wait_seconds:.0f} s: {reason}")
                    await self._plan.wait_change(min(deadline, now + LOOK_AGAIN_SECONDS))

    async def _decide(self, request: PublishRequest) -> Bind | Wait | Refuse:
        dataset = self._plan.find(request.dataset_namespace, request.dataset)
        if dataset is None:
            return decide(request, None, None, None)
        on_disk = await self._find(dataset.uid, dataset.version) if dataset.version else None
        return decide(request, dataset, self._plan.status_of(dataset.uid), on_disk)

    async def _find(self, uid: str, digest: str) -> VersionOnDisk | None:
        try:
            return await asyncio.to_thread(self._versions.find, uid, digest)
        except CacheError as error:
            log.warning("version %s of dataset %s: %s; the fetcher fetches it again", digest, uid, error)
            return None

    async def _mount(self, wish: Wish, choice: Bind) -> None:
        request = wish.request
        async with self._targets.hold(request.target):
            if self._table.get(request.target) is not None:
                return  # another call for the same target was faster
            if not self._wishes.is_current(wish):
                raise VolumeError(VolumeCode.ABORTED, f"the volume {request.volume_id} was unpublished while it waited")
            mode = self._mounter.sources.best((choice.uid, choice.version), choice.on_disk)
            await self._mounter.mount(published(request, choice, mode))
            self._wishes.drop(request.target)

    async def _again(self, request: PublishRequest) -> None:
        async with self._targets.hold(request.target):
            record = self._table.get(request.target)
            if record is None:
                raise VolumeError(VolumeCode.ABORTED, f"the volume {request.volume_id} was unpublished meanwhile")
            if record.request.name != request.name:
                raise VolumeError(
                    VolumeCode.ALREADY_EXISTS,
                    f"{request.target} shows the Dataset {record.request.name}, not {request.name}: unpublish it first",
                )
            if not await self._mounter.is_alive(request.target):
                await self._heal(record)

    async def _take_off(self, target: Path) -> None:
        async with self._targets.hold(target):
            await self._mounter.take_off(target)
            self._dead.discard(target)
        self._on_change()

    async def _swap_one(self, target: Path, on_disk: VersionOnDisk, wanted: MountMode) -> None:
        async with self._targets.hold(target):
            record = self._table.get(target)
            if record is None or is_settled(record, on_disk, wanted):
                return
            try:
                await self._mounter.swap(record, on_disk, wanted)
            except VolumeError as error:
                log.warning("volume %s stays on %s: %s", record.request.row_id, record.mode, error)
        self._on_change()

    async def _restore_one(self, target: Path) -> None:
        async with self._targets.hold(target):
            record = self._table.get(target)
            try:
                if record is None:
                    return
                if await self._mounter.is_gone(target):
                    await self._mounter.take_off(target)
                elif not await self._mounter.is_alive(target):
                    await self._heal(record)
                else:  # the agent before this one may not have seen the containers (hostPID), or was killed half way
                    await self._mounter.follow(record)
                self._dead.discard(target)
            except VolumeError as error:
                self._dead.add(target)
                log.error("the volume at %s was not mounted again, and its pod reads nothing: %s", target, error)

    async def _heal(self, record: Published) -> None:
        on_disk = await self._find(record.uid, record.version)
        if on_disk is None:
            raise VolumeError(
                VolumeCode.UNAVAILABLE,
                f"version {record.version[:12]} of the Dataset {record.request.name} is no longer on this node's cache disk, "
                "and a pod keeps its version for life: delete the pod, and a new one gets the current version",
            )
        await self._mounter.heal(record, on_disk)

    async def _to_the_end(self, work: Coroutine[None, None, None]) -> None:
        """A kubelet that hangs up cancels the call; what mounts and remembers must not stop half way."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        await asyncio.shield(task)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a volume operation ended with: %s", error)  # also raised to the caller, if that still listens

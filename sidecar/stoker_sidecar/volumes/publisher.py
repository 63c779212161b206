"""Answers the kubelet's calls: notes what is asked for, waits for plan and manifest, and has it mounted once."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stoker_api.node_dataset import NodeDataset
from stoker_api.node_storage import NodeMount
from stoker_api.nodecache import NodeDatasetStatus
from stoker_sidecar.errors import VolumeCode, VolumeError
from stoker_sidecar.volumes.core.publish import (
    Bind,
    PublishRequest,
    Refuse,
    VersionKey,
    VolumeReport,
    Wait,
    decide,
    mounted_row,
    pending_row,
    report,
    version_to_keep,
)
from stoker_sidecar.volumes.mounted_volumes import MountedVolumes

# A manifest can land on the disk with no word in plan or status, so a waiting call looks by itself this often.
LOOK_AGAIN_SECONDS = 1.0
# The kubelet asks again after at most 2 min 2 s (its volume back-off), plus the wait of a call; twice that, and the pod
# is gone.
FORGET_SECONDS = 300.0


class Plan(Protocol):
    """What the operator wants of this node (NodeCache.spec) and how far the node is; the agent has it."""

    def find(self, namespace: str, name: str) -> NodeDataset | None:
        """Return the dataset's entry in the plan."""

    def status_of(self, uid: str) -> NodeDatasetStatus | None:
        """Return how far this node is with it."""

    def keeps(self, uid: str, digest: str) -> bool:
        """Return whether the fetcher has confirmed that it keeps this version, as it was asked to."""

    async def wait_change(self, deadline: float) -> None:
        """Return when plan or status changed since the last look, or at ``deadline`` (by the publisher's clock)."""


@dataclass(eq=False)
class PendingPublish:
    """One request that waits; compared by identity, since an unpublish and a new publish make another one."""

    request: PublishRequest
    callers: int = 0
    version: VersionKey | None = None  # that the fetcher is to keep for it; known once the plan has the dataset
    last_seen: float = 0.0  # seconds of the publisher's clock


class PendingPublishes:
    """The requests that wait, by target: how a node asks the operator for a dataset.

    One lives while a call waits for it, and then until the kubelet should have asked again.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pending: dict[Path, PendingPublish] = {}

    def enter(self, request: PublishRequest) -> PendingPublish:
        """Note that a call begins to wait; calls for one target share an entry."""
        pending = self._pending.setdefault(request.target, PendingPublish(request))
        pending.callers += 1
        return pending

    def leave(self, pending: PendingPublish) -> None:
        """Note that a call ended, with or without a mount."""
        pending.callers -= 1
        pending.last_seen = self._clock()

    def is_current(self, pending: PendingPublish) -> bool:
        """Return False when the request was fulfilled or withdrawn meanwhile."""
        return self._pending.get(pending.request.target) is pending

    def end(self, pending: PendingPublish) -> None:
        """Forget a request that was fulfilled or refused, unless another one took its place."""
        if self.is_current(pending):
            del self._pending[pending.request.target]

    def withdraw(self, target: Path) -> None:
        """Forget what waits for ``target``; nothing is no error."""
        self._pending.pop(target, None)

    def current(self) -> tuple[PublishRequest, ...]:
        """Return the requests that wait; those that the kubelet gave up are forgotten."""
        oldest = self._clock() - FORGET_SECONDS
        self._pending = {key: one for key, one in self._pending.items() if one.callers or one.last_seen > oldest}
        return tuple(one.request for one in self._pending.values())

    def volumes(self) -> frozenset[tuple[VersionKey, Path]]:
        """Return each volume that is about to be mounted: its version and its target."""
        return frozenset((one.version, key) for key, one in self._pending.items() if one.version is not None)


class Publisher:
    """Answers the kubelet's calls for volumes of this node. All methods run in one event loop.

    ``wait_seconds``: how long a publish waits for plan and manifest before it answers UNAVAILABLE; well under the 2
    minutes that the kubelet gives a call. ``on_change`` is called after ``rows()`` changed; ``clock`` counts seconds.
    """

    def __init__(
        self,
        plan: Plan,
        volumes: MountedVolumes,
        *,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wait_seconds: float = 50.0,
    ) -> None:
        self._plan = plan
        self._volumes = volumes
        self._on_change = on_change
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._pending = PendingPublishes(clock)

    async def publish(self, request: PublishRequest) -> None:
        """Return when the dataset is mounted at the target, now or before. Raises VolumeError."""
        if self._volumes.get(request.target) is not None:
            return await self._volumes.mount_again(request)
        pending = self._pending.enter(request)
        self._on_change()
        try:
            choice = await self._choose(pending)
            await self._volumes.mount(request, choice, lambda: self._pending.is_current(pending))
            self._pending.end(pending)
        except VolumeError as error:
            # The kubelet asks again after UNAVAILABLE, and what is pending keeps the dataset in the plan until then.
            if error.code is not VolumeCode.UNAVAILABLE:
                self._pending.end(pending)
            raise
        finally:
            self._pending.leave(pending)
            self._on_change()

    async def unpublish(self, target: Path) -> None:
        """Return when nothing of ours is at the target, now or before. Raises VolumeError."""
        self._pending.withdraw(target)
        await self._volumes.unmount(target)

    async def report(self, volume_id: str, path: Path) -> VolumeReport:
        """Return size and health of a published volume. Raises VolumeError (NOT_FOUND)."""
        record = self._volumes.get(path)
        if record is None or record.request.volume_id != volume_id:
            raise VolumeError(VolumeCode.NOT_FOUND, f"the volume {volume_id} is not published at {path} on this node")
        return report(record, await self._volumes.is_dead(path), self._plan.status_of(record.uid))

    def rows(self) -> tuple[NodeMount, ...]:
        """Return NodeCache.status.mounts: pending requests and mounted volumes, one row an id."""
        rows = [pending_row(request) for request in self._pending.current()]
        rows += [mounted_row(record) for record in self._volumes.all()]
        return tuple({row.volume_id: row for row in rows}.values())

    def held_versions(self) -> dict[str, tuple[str, ...]]:
        """Return what must stay on the disk: by uid of the Dataset, versions that are mounted or about to be.

        Each is there as often as there are volumes of it, so that a further one is seen.
        """
        held: dict[str, list[str]] = {}
        for (uid, digest), _ in self._volumes.volumes() | self._pending.volumes():
            held.setdefault(uid, []).append(digest)
        return {uid: tuple(sorted(digests)) for uid, digests in held.items()}

    async def _choose(self, pending: PendingPublish) -> Bind:
        deadline = self._clock() + self._wait_seconds
        while True:
            match await self._decide(pending):
                case Bind() as choice:
                    return choice
                case Refuse(code, reason):
                    raise VolumeError(code, reason)
                case Wait(reason):
                    now = self._clock()
                    if now >= deadline:
                        raise VolumeError(VolumeCode.UNAVAILABLE, f"waited {self._wait_seconds:.0f} s: {reason}")
                    await self._plan.wait_change(min(deadline, now + LOOK_AGAIN_SECONDS))

    async def _decide(self, pending: PendingPublish) -> Bind | Wait | Refuse:
        """Ask the fetcher to keep the version, and look at the disk once it has answered.

        Before its answer it may be dropping this very version to make room for another.
        """
        request = pending.request
        dataset = self._plan.find(request.dataset_namespace, request.dataset)
        version = version_to_keep(request, dataset)
        if version != pending.version:
            pending.version = version
            self._on_change()
        kept = version is not None and self._plan.keeps(*version)
        on_disk = await self._volumes.find(*version) if version is not None and kept else None
        return decide(request, dataset, self._plan.status_of(dataset.uid) if dataset else None, on_disk, kept=kept)

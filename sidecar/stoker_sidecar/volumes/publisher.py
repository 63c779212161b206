"""Answers the kubelet's calls: records requests, waits for plan and manifest, and mounts each volume once."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_storage import NodeMount
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

# A manifest can appear on the disk without a change in plan or status, so waiting calls poll at this interval.
LOOK_AGAIN_SECONDS = 1.0
# The kubelet retries after at most 2 min 2 s (its volume back-off), plus the wait of a call. After twice that, the pod
# is gone.
FORGET_SECONDS = 300.0
# Volumes of one pod, whose spec may have thousands. Each takes room in the table, the status and fetcher orders. The
# annotation allows 20 Datasets.
MOST_POD_VOLUMES = 64


class Plan(Protocol):
    """The operator's plan for this node (NodeCache.spec) and the node's progress. The agent implements it."""

    def find(self, namespace: str, name: str) -> NodeDataset | None:
        """Return the dataset's entry in the plan."""

    def status_of(self, uid: str) -> NodeDatasetStatus | None:
        """Return this node's progress with it."""

    def keeps(self, uid: str, digest: str) -> bool:
        """Return True if the fetcher has confirmed that it keeps this version."""

    async def wait_change(self, deadline: float) -> None:
        """Return after a change of plan or status since the last look, or at ``deadline`` on the publisher's clock."""


@dataclass(eq=False)
class PendingPublish:
    """One request that waits; compared by identity, since an unpublish and a new publish make another one."""

    request: PublishRequest
    callers: int = 0
    version: VersionKey | None = None  # version that the fetcher must keep for it; known once the plan has the dataset
    last_seen: float = 0.0  # seconds of the publisher's clock


class PendingPublishes:
    """The waiting requests by target, through which a node requests datasets from the operator.

    A request lives while a call waits for it, and then until the kubelet's next retry is overdue.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pending: dict[Path, PendingPublish] = {}

    def enter(self, request: PublishRequest) -> PendingPublish:
        """Record the start of a waiting call. Calls for one target share an entry."""
        pending = self._pending.setdefault(request.target, PendingPublish(request))
        pending.callers += 1
        return pending

    def leave(self, pending: PendingPublish) -> None:
        """Record the end of a call, with or without a mount."""
        pending.callers -= 1
        pending.last_seen = self._clock()

    def is_current(self, pending: PendingPublish) -> bool:
        """Return False if the request was fulfilled or withdrawn."""
        return self._pending.get(pending.request.target) is pending

    def end(self, pending: PendingPublish) -> None:
        """Forget a fulfilled or refused request, unless another one replaced it."""
        if self.is_current(pending):
            del self._pending[pending.request.target]

    def withdraw(self, target: Path) -> None:
        """Forget the request for ``target``; a missing one is no error."""
        self._pending.pop(target, None)

    def current(self) -> tuple[PublishRequest, ...]:
        """Return the waiting requests. Forget those that the kubelet gave up."""
        oldest = self._clock() - FORGET_SECONDS
        self._pending = {key: one for key, one in self._pending.items() if one.callers or one.last_seen > oldest}
        return tuple(one.request for one in self._pending.values())

    def volumes(self) -> frozenset[tuple[VersionKey, Path]]:
        """Return the version and the target of each volume that is about to be mounted."""
        return frozenset((one.version, key) for key, one in self._pending.items() if one.version is not None)


class Publisher:
    """Answers the kubelet's calls for volumes of this node. All methods run in one event loop.

    ``wait_seconds`` is the time that a publish waits for plan and manifest before it answers UNAVAILABLE. It is well
    under the 2 minutes that the kubelet gives a call. ``on_change`` is called after ``rows()`` changed. ``clock``
    counts seconds.
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
        """Return when the dataset is mounted at the target. Raises VolumeError."""
        if self._volumes.get(request.target) is not None:
            return await self._volumes.mount_again(request)
        self._check_count(request)
        pending = self._pending.enter(request)
        self._on_change()
        try:
            choice = await self._choose(pending)
            await self._volumes.mount(request, choice, lambda: self._pending.is_current(pending))
            self._pending.end(pending)
        except VolumeError as error:
            # The kubelet retries after UNAVAILABLE, and the pending request keeps the dataset in the plan until then.
            if error.code is not VolumeCode.UNAVAILABLE:
                self._pending.end(pending)
            raise
        finally:
            self._pending.leave(pending)
            self._on_change()

    async def unpublish(self, target: Path) -> None:
        """Return when no mount of Stoker is at the target. Raises VolumeError."""
        self._pending.withdraw(target)
        await self._volumes.unmount(target)

    async def report(self, volume_id: str, path: Path) -> VolumeReport:
        """Return size and health of a published volume. Raises VolumeError (NOT_FOUND)."""
        record = self._volumes.get(path)
        if record is None or record.request.volume_id != volume_id:
            raise VolumeError(VolumeCode.NOT_FOUND, f"the volume {volume_id} is not published at {path} on this node")
        return report(record, await self._volumes.is_dead(path), self._plan.status_of(record.uid))

    def rows(self) -> tuple[NodeMount, ...]:
        """Return NodeCache.status.mounts: pending requests and mounted volumes, one row per id."""
        rows = [pending_row(request) for request in self._pending.current()]
        mounted = (record for record in self._volumes.all() if record.request.dataset)
        rows += [mounted_row(replace(record, mode=self._volumes.shown_mode(record))) for record in mounted]
        return tuple({row.volume_id: row for row in rows}.values())

    def held_versions(self) -> dict[str, tuple[str, ...]]:
        """Return the versions that must stay on the disk, by uid of the Dataset: mounted ones and those about to be.

        Each appears once for each of its volumes, so that an additional volume changes the result.
        """
        held: dict[str, list[str]] = {}
        for (uid, digest), _ in self._volumes.held() | self._pending.volumes():
            held.setdefault(uid, []).append(digest)
        return {uid: tuple(sorted(digests)) for uid, digests in held.items()}

    def _check_count(self, request: PublishRequest) -> None:
        """Refuse another volume of a pod with too many. Raises VolumeError (INVALID_ARGUMENT)."""
        requests = [*self._pending.current(), *(record.request for record in self._volumes.all())]
        others = {one.target for one in requests if one.pod_uid == request.pod_uid} - {request.target}
        if len(others) >= MOST_POD_VOLUMES:
            raise VolumeError(
                VolumeCode.INVALID_ARGUMENT,
                f"pod {request.pod_namespace}/{request.pod} has {len(others)} volumes of Datasets, the "
                "maximum of a pod: mount one volume at several paths, or name a Dataset with more folders",
            )

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
        """Ask the fetcher to keep the version, and look at the disk after its answer.

        Before the answer, the fetcher may be dropping this version to free space.
        """
        request = pending.request
        dataset = self._plan.find(request.dataset_namespace, request.dataset)
        version = version_to_keep(request, dataset)
        if version != pending.version:
            pending.version = version
            self._on_change()
        kept = version is not None and self._plan.keeps(*version)
        on_disk = await self._volumes.find(*version) if version is not None and kept else None
        status = self._plan.status_of(dataset.uid) if dataset else None
        decision = decide(request, dataset, status, on_disk, kept=kept)
        return (self._volumes.obstacle(request, decision) if isinstance(decision, Bind) else None) or decision

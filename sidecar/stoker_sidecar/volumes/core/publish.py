"""Decides the answer to a publish request: bind a version, wait, or refuse.

Later it decides the best mount for the volume. Pure.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.meta import read_bounded
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_api.node_caches.node_storage import MountPhase, NodeMount
from stoker_sidecar.errors import VolumeCode
from stoker_tuning.frameworks.pod_hints import NO_HINTS, PodHints

VersionKey = tuple[str, str]  # uid of the Dataset, digest


@dataclass(frozen=True)
class PublishRequest:
    """A validated request of a pod to mount a dataset at ``target``.

    ``target`` is the key, because a PersistentVolume has the same volume id for all pods of a node. ``version`` is the
    digest in the volume; empty: the plan's current one. ``ephemeral`` means an inline volume, which containers mount
    read-only. ``hints`` are what the pod's spec shows of its training. ``sampling`` is its reading order, as
    stoker_api.jobs.sampling writes it; empty: unknown. ``user_namespace`` means that the pod has ``hostUsers: false``.
    ``scratch_bytes`` is the size of the volume's writable layer; 0: the volume is read-only.
    """

    volume_id: str
    target: Path
    dataset_namespace: str
    dataset: str
    pod_namespace: str
    pod: str
    pod_uid: str
    ephemeral: bool
    version: str = ""  # absent in the state of agents before named versions
    hints: PodHints = NO_HINTS  # absent in the state of agents before hints
    sampling: str = ""  # absent in the state of agents before known orders
    user_namespace: bool = False
    scratch_bytes: int = 0

    @property
    def name(self) -> str:
        """Return namespace/name of the dataset."""
        return f"{self.dataset_namespace}/{self.dataset}"

    @property
    def row_id(self) -> str:
        """Return this mount's id in NodeCache.status.mounts, where ids are unique."""
        return self.volume_id if self.ephemeral else f"{self.volume_id}#{self.pod_uid}"


@dataclass(frozen=True)
class VersionOnDisk:
    """A version whose manifest is on this node. ``complete`` means that all its bytes are here and verified."""

    folder: Path
    files: int
    bytes: int
    complete: bool


@dataclass(frozen=True)
class Published:
    """A mounted volume, or one that is being mounted. Its version never changes. ``mode`` is that of its top layer.

    ``fuse`` and ``overlay`` name layers in its stack, perhaps below a better layer. They must live on for open files:
    the version's FUSE server, which an overlay also needs, and its overlay.
    """

    request: PublishRequest
    uid: str
    version: str
    folder: Path
    files: int
    bytes: int
    mode: MountMode
    fuse: bool
    overlay: bool = False  # absent in the state of agents before overlays


@dataclass(frozen=True)
class Bind:
    """The decision to mount this version."""

    uid: str
    version: str
    on_disk: VersionOnDisk


@dataclass(frozen=True)
class Wait:
    """The decision to wait. ``reason`` tells the user what is missing."""

    reason: str


@dataclass(frozen=True)
class Refuse:
    """The decision to refuse the mount in the current state."""

    code: VolumeCode
    reason: str


def may_mount(pod_namespace: str, dataset: NodeDataset) -> bool:
    """Return True if pods of a namespace may mount a dataset.

    Its own namespace always may; patterns are case-sensitive.
    """
    granted = any(fnmatchcase(pod_namespace, pattern) for pattern in dataset.allowed_namespaces)
    return granted or pod_namespace == dataset.namespace


def version_to_keep(request: PublishRequest, dataset: NodeDataset | None) -> VersionKey | None:
    """Return the version that the fetcher must keep while this request waits, or None if there is none."""
    if dataset is None or dataset.refused or not may_mount(request.pod_namespace, dataset):
        return None
    version = request.version or dataset.version
    return (dataset.uid, version) if version else None


def decide(
    request: PublishRequest,
    dataset: NodeDataset | None,
    status: NodeDatasetStatus | None,
    on_disk: VersionOnDisk | None,
    *,
    kept: bool,
) -> Bind | Wait | Refuse:
    """Decide the answer to a request now.

    ``on_disk`` is the version to mount, if its manifest is here. ``kept`` means that the fetcher confirmed, before that
    look at the disk, that it keeps the version.
    """
    if dataset is None:
        return Wait(
            f"this node has asked the operator for the Dataset {request.name} and does not have it yet; if this "
            f"persists, check that it exists (kubectl get dataset {request.dataset} -n {request.dataset_namespace}), "
            f"that it admits pods of namespace {request.pod_namespace} (its spec.access.namespaces), and that the "
            "operator runs"
        )
    if not may_mount(request.pod_namespace, dataset):
        return Refuse(VolumeCode.PERMISSION_DENIED, _denied(request))
    if dataset.refused:
        return Refuse(VolumeCode.PERMISSION_DENIED, f"the Dataset {request.name} is refused: {dataset.refused}")
    version = request.version or dataset.version
    if not version:
        return Wait(f"the Dataset {request.name} has no version to mount yet: {_why_unlisted(status)}")
    if not kept:
        return Wait(
            f"the fetcher of this node has not confirmed yet that it keeps version {version[:12]} of the "
            f"Dataset {request.name}; if this persists, look at the logs of the node's stoker-sidecar pod"
        )
    if on_disk is None:
        return Wait(
            f"the file list of the Dataset {request.name}, version {version[:12]}, is not on this node yet"
            + (_why_missing(version, dataset, status) or "; after an unclean stop its files are checked first")
        )
    return Bind(dataset.uid, version, on_disk)


def _why_missing(version: str, dataset: NodeDataset, status: NodeDatasetStatus | None) -> str:
    """Return the known reason for a missing file list of a version."""
    if version == dataset.version:
        return f": {status.error.message}" if status is not None and status.error is not None else ""
    older = next((one for one in status.older if one.version == version), None) if status is not None else None
    if older is not None and older.error is not None:
        return f": {older.error.message}"
    return "; if this persists, no node has that version: recreate the pod without naming it"


def _denied(request: PublishRequest) -> str:
    # The names of other admitted namespaces are not disclosed.
    return (
        f"the Dataset {request.name} does not admit pods of namespace {request.pod_namespace}: "
        f'its owner can add "{request.pod_namespace}" to its spec.access.namespaces'
    )


def _why_unlisted(status: NodeDatasetStatus | None) -> str:
    if status is not None and status.listing is not None and status.listing.error is not None:
        return f"its listing failed: {status.listing.error.message}"
    if status is not None and status.error is not None:
        return status.error.message
    return "its source is being listed (kubectl describe dataset shows how far it is)"


def published(request: PublishRequest, choice: Bind, mode: MountMode) -> Published:
    """Return the record of a mount before it is made."""
    here = choice.on_disk
    return Published(
        request=request,
        uid=choice.uid,
        version=choice.version,
        folder=here.folder,
        files=here.files,
        bytes=here.bytes,
        mode=mode,
        fuse=mode is not MountMode.NATIVE,
        overlay=_shares_overlay(request, mode),
    )


def _shares_overlay(request: PublishRequest, mode: MountMode) -> bool:
    """Return True if a volume in ``mode`` uses the version's overlay. One with scratch has its own."""
    return mode is MountMode.OVERLAY and not request.scratch_bytes


def pending_row(request: PublishRequest) -> NodeMount:
    """Return the row that requests the dataset from the operator.

    Texts are cut to their bounds, because a request of an earlier release may be longer.
    """
    row = {
        "volume_id": request.row_id,
        "dataset_namespace": request.dataset_namespace,
        "dataset": request.dataset,
        "pod_namespace": request.pod_namespace,
        "pod": request.pod,
        "pod_uid": request.pod_uid,
        "version": request.version,
    }
    return read_bounded(NodeMount, row)


def mounted_row(record: Published) -> NodeMount:
    """Return the row with the pod, the version and the mount mode."""
    mounted = {"phase": MountPhase.MOUNTED, "version": record.version, "mode": record.mode}
    return pending_row(record.request).model_copy(update=mounted)


@dataclass(frozen=True)
class VolumeReport:
    """The answer to NodeGetVolumeStats: the version's size, and any problem of the mount."""

    files: int
    bytes: int
    trouble: str = ""


def report(record: Published, dead: bool, status: NodeDatasetStatus | None) -> VolumeReport:
    """Return size and health of a published volume. ``dead`` means that its FUSE server is gone and reads fail."""
    trouble = ""
    if dead:
        trouble = "the file system of this volume does not answer: the node's sidecar mounts it again when it starts"
    elif status is not None and status.error is not None and record.mode is not MountMode.NATIVE:
        trouble = status.error.message
    return VolumeReport(record.files, record.bytes, trouble)


def wanted_mode(on_disk: VersionOnDisk, node_modes: Collection[MountMode], *, layer_ready: bool) -> MountMode:
    """Return the best mount mode now; FUSE if no better mode is possible.

    ``layer_ready`` means that the version's metadata layer is built.
    """
    if on_disk.complete:
        return MountMode.NATIVE
    if MountMode.OVERLAY in node_modes and layer_ready:
        return MountMode.OVERLAY
    return MountMode.FUSE


def in_user_namespace(mode: MountMode, request: PublishRequest) -> MountMode:
    """Return the mode for a pod with a user namespace, for which ``mode`` would be the best without one.

    The container runtime maps the users of the pod's mounts, and the kernel maps no overlay. A claim's native mount is
    an overlay, because a bind mount of the tree could be made writable.
    """
    overlaid = mode is MountMode.OVERLAY or (mode is MountMode.NATIVE and not request.ephemeral)
    return MountMode.FUSE if overlaid else mode


def needs_layer(on_disk: VersionOnDisk, node_modes: Collection[MountMode], *, layer_ready: bool) -> bool:
    """Return True if a metadata layer would improve the version's mounts. A complete version needs none."""
    return not on_disk.complete and MountMode.OVERLAY in node_modes and not layer_ready


def is_settled(record: Published, on_disk: VersionOnDisk, wanted: MountMode) -> bool:
    """Return True if a volume has the wanted mount of the version's current folder.

    A native mount is not settled if its version is damaged or has moved to another cache folder. A mount that can still
    read everything is then bound over it. A volume with scratch keeps its first mount, which can read everything.
    """
    return bool(record.request.scratch_bytes) or (record.mode is wanted and record.folder == on_disk.folder)


def claiming(record: Published, mode: MountMode) -> Published:
    """Return the record before such a layer is added. It needs the layer's servers and those of the layers below."""
    below = mode is not MountMode.NATIVE
    return replace(record, fuse=record.fuse or below, overlay=record.overlay or _shares_overlay(record.request, mode))


def alone(record: Published, on_disk: VersionOnDisk, mode: MountMode) -> Published:
    """Return the record of a volume with only the new layer alive."""
    return replace(
        record,
        folder=on_disk.folder,
        mode=mode,
        fuse=mode is not MountMode.NATIVE,
        overlay=_shares_overlay(record.request, mode),
    )


def users(records: Iterable[Published], version: VersionKey) -> tuple[Published, ...]:
    """Return the volumes of a version."""
    return tuple(record for record in records if (record.uid, record.version) == version)


def layer_is_spent(records: Iterable[Published], version: VersionKey, on_disk: VersionOnDisk | None) -> bool:
    """Return True if a metadata layer has no further use.

    No overlay uses it or will use it, because the version is complete or gone.
    """
    used = any(record.overlay for record in users(records, version))
    return not used and (on_disk is None or on_disk.complete)

"""Decides what becomes of a volume: bind which version how, wait for what, or refuse.

Later, which mount it should have. Pure.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from stoker_api.dataset import MountMode
from stoker_api.node_dataset import NodeDataset
from stoker_api.node_storage import MountPhase, NodeMount
from stoker_api.nodecache import NodeDatasetStatus
from stoker_sidecar.errors import VolumeCode
from stoker_tuning.frameworks.pod_hints import NO_HINTS, PodHints

VersionKey = tuple[str, str]  # uid of the Dataset, digest


@dataclass(frozen=True)
class PublishRequest:
    """A pod's request to see a dataset at ``target``, already checked.

    ``target`` is the key: the volume id of a PersistentVolume is the same for all pods of a node. ``version``: the
    digest that the volume names; empty: the plan's current one. ``hints``: what the pod's spec tells of its training.
    ``sampling``: in which order it reads, as stoker_api.sampling writes it; empty: not known.
    """

    volume_id: str
    target: Path
    dataset_namespace: str
    dataset: str
    pod_namespace: str
    pod: str
    pod_uid: str
    ephemeral: bool
    version: str = ""  # absent in what agents before named versions remembered
    hints: PodHints = NO_HINTS  # likewise, before hints
    sampling: str = ""  # likewise, before known orders

    @property
    def name(self) -> str:
        """Return namespace/name of the dataset."""
        return f"{self.dataset_namespace}/{self.dataset}"

    @property
    def row_id(self) -> str:
        """Return what names this mount in NodeCache.status.mounts, where no two rows may have the same id."""
        return self.volume_id if self.ephemeral else f"{self.volume_id}#{self.pod_uid}"


@dataclass(frozen=True)
class VersionOnDisk:
    """A version whose manifest is on this node. ``complete``: every byte of it is, verified."""

    folder: Path
    files: int
    bytes: int
    complete: bool


@dataclass(frozen=True)
class Published:
    """A volume that is mounted, or is just being. It keeps its version for life; ``mode`` is its top layer's.

    ``fuse`` and ``overlay`` say what lies in its stack, perhaps under a better layer, and so must live for files that
    are open: the version's FUSE server, which an overlay needs too, and its overlay.
    """

    request: PublishRequest
    uid: str
    version: str
    folder: Path
    files: int
    bytes: int
    mode: MountMode
    fuse: bool
    overlay: bool = False  # absent in what agents before overlays remembered


@dataclass(frozen=True)
class Bind:
    """The answer that this version is to be mounted."""

    uid: str
    version: str
    on_disk: VersionOnDisk


@dataclass(frozen=True)
class Wait:
    """The answer that it cannot be mounted yet; ``reason`` tells the user what is waited for."""

    reason: str


@dataclass(frozen=True)
class Refuse:
    """The answer that it is never mounted, as things are."""

    code: VolumeCode
    reason: str


def may_mount(pod_namespace: str, dataset: NodeDataset) -> bool:
    """Return whether pods of a namespace may mount a dataset: its own always, others by pattern (case matters)."""
    granted = any(fnmatchcase(pod_namespace, pattern) for pattern in dataset.allowed_namespaces)
    return granted or pod_namespace == dataset.namespace


def version_to_keep(request: PublishRequest, dataset: NodeDataset | None) -> VersionKey | None:
    """Return the version that the fetcher is to keep while this request waits; None while there is none."""
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
    """Decide what becomes of a request now.

    ``on_disk``: the version that is to be mounted, if its manifest is here. ``kept``: the fetcher had
    confirmed, before that look at the disk, that it keeps the version.
    """
    if dataset is None:
        return Wait(
            f"this node has asked the operator for the Dataset {request.name} and was not given it yet; if this "
            f"stays, check that it exists (kubectl get dataset {request.dataset} -n {request.dataset_namespace}), "
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
            f"Dataset {request.name}; if this stays, look at the logs of the node's stoker-sidecar pod"
        )
    if on_disk is None:
        return Wait(
            f"the file list of the Dataset {request.name}, version {version[:12]}, is not on this node yet"
            + _why_missing(version, dataset, status)
        )
    return Bind(dataset.uid, version, on_disk)


def _why_missing(version: str, dataset: NodeDataset, status: NodeDatasetStatus | None) -> str:
    """Say what keeps the file list of a version away, as far as is known."""
    if version == dataset.version:
        return f": {status.error.message}" if status is not None and status.error is not None else ""
    older = next((one for one in status.older if one.version == version), None) if status is not None else None
    if older is not None and older.error is not None:
        return f": {older.error.message}"
    return "; if this stays, no node has that version any more: make the pod anew, without naming it"


def _denied(request: PublishRequest) -> str:
    # Whom else it admits is no business of a pod that it does not.
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
    """Return the record of a mount that is about to be made."""
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
        overlay=mode is MountMode.OVERLAY,
    )


def pending_row(request: PublishRequest) -> NodeMount:
    """Return the row that asks the operator for the dataset."""
    return NodeMount(
        volume_id=request.row_id,
        dataset_namespace=request.dataset_namespace,
        dataset=request.dataset,
        pod_namespace=request.pod_namespace,
        pod=request.pod,
        pod_uid=request.pod_uid,
        version=request.version,
    )


def mounted_row(record: Published) -> NodeMount:
    """Return the row that says which pod reads which version how."""
    mounted = {"phase": MountPhase.MOUNTED, "version": record.version, "mode": record.mode}
    return pending_row(record.request).model_copy(update=mounted)


@dataclass(frozen=True)
class VolumeReport:
    """What NodeGetVolumeStats tells: the version's size, and what is wrong with the mount, if anything."""

    files: int
    bytes: int
    trouble: str = ""


def report(record: Published, dead: bool, status: NodeDatasetStatus | None) -> VolumeReport:
    """Return size and health of a published volume. ``dead``: its FUSE server is gone and reads fail."""
    trouble = ""
    if dead:
        trouble = "the file system of this volume does not answer: the node's sidecar mounts it again when it starts"
    elif status is not None and status.error is not None and record.mode is not MountMode.NATIVE:
        trouble = status.error.message
    return VolumeReport(record.files, record.bytes, trouble)


def wanted_mode(on_disk: VersionOnDisk, node_modes: Collection[MountMode], *, layer_ready: bool) -> MountMode:
    """Return the best mount now, FUSE where nothing better is possible.

    ``layer_ready``: the version's metadata layer is built.
    """
    if on_disk.complete:
        return MountMode.NATIVE
    if MountMode.OVERLAY in node_modes and layer_ready:
        return MountMode.OVERLAY
    return MountMode.FUSE


def needs_layer(on_disk: VersionOnDisk, node_modes: Collection[MountMode], *, layer_ready: bool) -> bool:
    """Return whether a metadata layer would make the version's mounts better. A complete version needs none."""
    return not on_disk.complete and MountMode.OVERLAY in node_modes and not layer_ready


def is_settled(record: Published, on_disk: VersionOnDisk, wanted: MountMode) -> bool:
    """Return whether a volume has the wanted mount, of the folder where the version lies now.

    A native mount whose version turned out damaged, or was moved to another cache folder, is not settled: what can
    still read everything is bound over it.
    """
    return record.mode is wanted and record.folder == on_disk.folder


def claiming(record: Published, mode: MountMode) -> Published:
    """Return the record before such a layer is added: it needs what the layer needs, and still what lies below it."""
    below = mode is not MountMode.NATIVE
    return replace(record, fuse=record.fuse or below, overlay=record.overlay or mode is MountMode.OVERLAY)


def alone(record: Published, on_disk: VersionOnDisk, mode: MountMode) -> Published:
    """Return the record of a volume of which nothing below the new layer is alive."""
    return replace(
        record,
        folder=on_disk.folder,
        mode=mode,
        fuse=mode is not MountMode.NATIVE,
        overlay=mode is MountMode.OVERLAY,
    )


def users(records: Iterable[Published], version: VersionKey) -> tuple[Published, ...]:
    """Return the volumes that show a version."""
    return tuple(record for record in records if (record.uid, record.version) == version)


def layer_is_spent(records: Iterable[Published], version: VersionKey, on_disk: VersionOnDisk | None) -> bool:
    """Return whether a metadata layer only takes inodes.

    No overlay uses it, and none will, since the version is whole or gone.
    """
    used = any(record.overlay for record in users(records, version))
    return not used and (on_disk is None or on_disk.complete)

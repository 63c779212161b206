"""Finds pod mounts without a row in the mount table, from mountinfo. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_storage import NodeMount
from stoker_sidecar.linux.mounts import fuse_device, overlay
from stoker_sidecar.linux.mounts.mountinfo import Mount
from stoker_sidecar.volumes.core.publish import Published, PublishRequest, VersionKey
from stoker_sidecar.wire.config.folders import REPORTS

# The root of a native mount in mountinfo.
_TREE = re.compile(r"/datasets/([^/]+)/versions/([^/]+)/tree$")
_POD_VOLUME = r"/[^/]+/volumes/kubernetes\.io~csi/[^/]+/mount"  # below the folder of the kubelet's pods


@dataclass(frozen=True)
class LostMount:
    """A mounted pod volume without a row in the table.

    ``version`` is None if mountinfo does not name it. ``ours`` means that mountinfo alone proves that Stoker made the
    mount. ``fuse`` and ``overlay`` are the layers of its stack, as in ``Published``.
    """

    target: Path
    version: VersionKey | None
    ours: bool
    mode: MountMode
    fuse: bool
    overlay: bool

    @property
    def pod_uid(self) -> str:
        """Return the UID of the pod, which names the pod's folder."""
        return self.target.parents[3].name

    def published(self, folder: Path, version: VersionKey, volume_id: str, *, ephemeral: bool) -> Published:
        """Return its record, without the names of Dataset and pod. ``folder``: of the version."""
        request = PublishRequest(volume_id, self.target, "", "", "", "", self.pod_uid, ephemeral)
        return Published(request, *version, folder, 0, 0, self.mode, self.fuse, self.overlay)


def lost_mounts(rows: Iterable[Mount], pods: Path, mount_root: Path, known: Collection[Path]) -> tuple[LostMount, ...]:
    """Return the mounted CSI volumes below the kubelet's folder ``pods`` whose targets are not ``known``.

    Report volumes are not among them. ``rows``: of mountinfo. ``mount_root``: folder of the FUSE and overlay mounts,
    which name their versions.
    """
    rows, seen = tuple(rows), set(map(str, known))
    served = {row.device: key for row in rows if (key := _served(row.target, str(mount_root))) is not None}
    is_pod_volume = re.compile(re.escape(str(pods)) + _POD_VOLUME).fullmatch
    stacks = defaultdict[str, list[Mount]](list)
    for row in rows:  # only strings, since a node may have ten thousand
        if row.target not in seen and is_pod_volume(row.target):
            stacks[row.target].append(row)
    found = ((Path(target), stack) for target, stack in stacks.items())
    return tuple(_lost(target, stack, served) for target, stack in found if not _is_report_folder(target, stack[-1]))


def _served(target: str, mount_root: str) -> VersionKey | None:
    folder, _, name = target.rpartition("/")
    parent, _, uid = folder.rpartition("/")
    return (uid, name.removesuffix(overlay.SUFFIX)) if parent == mount_root else None


def _is_report_folder(target: Path, row: Mount) -> bool:
    return row.root.removesuffix("//deleted").endswith(f"/{REPORTS}/{target.parents[3].name}")


def _lost(target: Path, stack: Sequence[Mount], served: dict[str, VersionKey]) -> LostMount:
    modes = [_mode(row) for row in stack]
    versions = [version for row in stack if (version := _version(row, served)) is not None]
    return LostMount(
        target,
        versions[-1] if versions else None,
        ours=bool(versions) or any(mode is not MountMode.NATIVE for mode in modes),
        mode=modes[-1],
        fuse=any(mode is not MountMode.NATIVE for mode in modes),
        overlay=MountMode.OVERLAY in modes,
    )


def _mode(row: Mount) -> MountMode:
    if overlay.is_ours(row):
        return MountMode.OVERLAY
    return MountMode.FUSE if row.fs_type == fuse_device.FS_TYPE else MountMode.NATIVE


def _version(row: Mount, served: dict[str, VersionKey]) -> VersionKey | None:
    if _mode(row) is not MountMode.NATIVE:
        return served.get(row.device)
    found = _TREE.search(row.root)
    return (found.group(1), found.group(2)) if found is not None else None


def identified(record: Published, told: Iterable[NodeMount], planned: NodeDataset | None) -> Published:
    """Return the record with the names of Dataset and pod that are known.

    ``told``: the mounts of the last NodeCache status. ``planned``: the Dataset of the record's UID.
    """
    asked = record.request
    for row in told:
        if row.volume_id == asked.row_id and row.version == record.version:
            names = (row.dataset_namespace, row.dataset, row.pod_namespace, row.pod)
            return replace(record, request=_named(asked, *names))
    if planned is None:
        return record
    return replace(record, request=_named(asked, planned.namespace, planned.name))


def _named(
    asked: PublishRequest, namespace: str, dataset: str, pod_namespace: str = "", pod: str = ""
) -> PublishRequest:
    return replace(asked, dataset_namespace=namespace, dataset=dataset, pod_namespace=pod_namespace, pod=pod)

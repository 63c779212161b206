"""Parses what the kubelet sends into frozen types that cannot be wrong later, or into a sentence. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from stoker_api import names
from stoker_api.pod_hints import read_hints
from stoker_api.sampling import read_sampling
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.errors import VolumeCode, VolumeError
from stoker_sidecar.volumes.core.publish import PublishRequest
from stoker_sidecar.volumes.core.report_volume import ReportVolume

_Mode = csi_pb2.VolumeCapability.AccessMode
_READER_MODES = {_Mode.SINGLE_NODE_READER_ONLY, _Mode.MULTI_NODE_READER_ONLY}
# The kubelet sends SINGLE_NODE_WRITER for every inline volume, whatever its readOnly says.
_SINGLE_NODE_WRITER_MODES = {_Mode.SINGLE_NODE_WRITER, _Mode.SINGLE_NODE_SINGLE_WRITER, _Mode.SINGLE_NODE_MULTI_WRITER}


_DIGEST = re.compile(r"[0-9a-f]{64}")
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")  # becomes the name of a folder


@dataclass(frozen=True)
class UnpublishRequest:
    """The kubelet's request that nothing be mounted at ``target``."""

    volume_id: str
    target: Path


@dataclass(frozen=True)
class StatsRequest:
    """The kubelet's question how big and how well a volume is."""

    volume_id: str
    path: Path


def _invalid(sentence: str) -> VolumeError:
    return VolumeError(VolumeCode.INVALID_ARGUMENT, sentence)


def _required(value: str, field: str) -> str:
    if not value:
        raise _invalid(f"the request has no {field}: the CSI specification requires it")
    return value


def _target(text: str, kubelet_dir: Path) -> Path:
    """Check that a target path is really below the kubelet's folder: this process mounts there as root."""
    path = PurePosixPath(_required(text, "target_path"))
    if (
        "\0" in text
        or ".." in path.parts
        or not path.is_relative_to(kubelet_dir)
        or len(path.parts) <= len(kubelet_dir.parts)
    ):
        raise _invalid(
            f"target_path {text!r} is not below the kubelet's folder {kubelet_dir}: "
            "set kubeletDir in the chart's values"
        )
    return Path(path)


def parse_publish(request: csi_pb2.NodePublishVolumeRequest, kubelet_dir: Path) -> PublishRequest:
    """Check a publish request. Raises VolumeError (INVALID_ARGUMENT) with a sentence."""
    volume_id = _required(request.volume_id, "volume_id")
    target = _target(request.target_path, kubelet_dir)
    context = request.volume_context
    ephemeral = context.get(names.CSI_EPHEMERAL) == "true"
    _check_capability(request, ephemeral)
    pod_namespace = _pod_namespace(context)
    return PublishRequest(
        volume_id=volume_id,
        target=target,
        dataset_namespace=context.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or pod_namespace,
        dataset=_dataset(context),
        pod_namespace=pod_namespace,
        pod=context.get(names.CSI_POD_NAME, ""),
        pod_uid=context.get(names.CSI_POD_UID, ""),
        ephemeral=ephemeral,
        version=_version(context),
        hints=read_hints(context),
        sampling=read_sampling(context),
    )


def is_report(request: csi_pb2.NodePublishVolumeRequest) -> bool:
    """Tell whether a report volume is asked for, whatever Dataset it names for older sidecars."""
    return request.volume_context.get(names.CSI_ATTRIBUTE_REPORT) == "true"


def parse_report(request: csi_pb2.NodePublishVolumeRequest, kubelet_dir: Path) -> ReportVolume:
    """Check a request for a report volume: only the kubelet says whose it is. Raises VolumeError (INVALID_ARGUMENT)."""
    volume_id = _required(request.volume_id, "volume_id")
    context = request.volume_context
    _check_capability(request, context.get(names.CSI_EPHEMERAL) == "true")
    uid = context.get(names.CSI_POD_UID, "")
    if _UID.fullmatch(uid) is None:
        raise _invalid(f"the kubelet did not say which pod asks: {uid!r} is no UID")
    return ReportVolume(
        volume_id=volume_id,
        target=_target(request.target_path, kubelet_dir),
        namespace=_pod_namespace(context),
        pod=context.get(names.CSI_POD_NAME, ""),
        pod_uid=uid,
        hints=read_hints(context),
    )


def _check_capability(request: csi_pb2.NodePublishVolumeRequest, ephemeral: bool) -> None:
    if not request.HasField("volume_capability"):
        raise _invalid("the request has no volume_capability: the CSI specification requires it")
    capability = request.volume_capability
    if capability.WhichOneof("access_type") != "mount":
        raise _invalid("a dataset is a file system and cannot be a block device: set volumeMode: Filesystem")
    mode = capability.access_mode.mode
    inline_mode = mode in _SINGLE_NODE_WRITER_MODES and (ephemeral or request.readonly)
    if mode not in _READER_MODES and not inline_mode:
        raise _invalid(
            f"access mode {_mode_name(mode)} would write, and a dataset is read-only: use accessModes: [ReadOnlyMany]"
        )


def _mode_name(mode: int) -> str:
    """Return the specification's word for a mode, or the number of one that is newer than this driver."""
    return _Mode.Mode.Name(mode) if mode in _Mode.Mode.values() else str(mode)


def _pod_namespace(context: Mapping[str, str]) -> str:
    namespace = context.get(names.CSI_POD_NAMESPACE, "")
    if not namespace:
        # Access is decided by it, and only the kubelet's word counts.
        raise _invalid(
            f"the kubelet did not say which pod asks: the CSIDriver {names.CSI_DRIVER} needs podInfoOnMount: true"
        )
    return namespace


def _dataset(context: Mapping[str, str]) -> str:
    name = context.get(names.CSI_ATTRIBUTE_DATASET, "")
    if not name:
        raise _invalid(
            f"the volume names no dataset: set volumeAttributes.{names.CSI_ATTRIBUTE_DATASET} to the name of a Dataset"
        )
    return name


def _version(context: Mapping[str, str]) -> str:
    version = context.get(names.CSI_ATTRIBUTE_VERSION, "")
    if version and not _DIGEST.fullmatch(version):
        raise _invalid(
            f"volumeAttributes.{names.CSI_ATTRIBUTE_VERSION} is {version[:80]!r}: it must be the whole version of a "
            "Dataset, 64 digits of 0-9 and a-f, or absent"
        )
    return version


def parse_unpublish(request: csi_pb2.NodeUnpublishVolumeRequest, kubelet_dir: Path) -> UnpublishRequest:
    """Check an unpublish request. Raises VolumeError (INVALID_ARGUMENT) with a sentence."""
    volume_id = _required(request.volume_id, "volume_id")
    return UnpublishRequest(volume_id, _target(request.target_path, kubelet_dir))


def parse_stats(request: csi_pb2.NodeGetVolumeStatsRequest) -> StatsRequest:
    """Check a stats request; a path that nothing is published at is not its concern. Raises VolumeError."""
    volume_id = _required(request.volume_id, "volume_id")
    return StatsRequest(volume_id, Path(_required(request.volume_path, "volume_path")))

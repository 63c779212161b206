"""Parses the kubelet's requests into validated frozen types, or raises an error with a sentence. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from stoker_api import names
from stoker_api.jobs.pod_hints import read_hints
from stoker_api.jobs.sampling import MOST_CHARACTERS, read_sampling
from stoker_api.jobs.scratch import parse_scratch
from stoker_api.meta import DNS_LABEL_PATTERN, DNS_SUBDOMAIN_PATTERN, shortened
from stoker_sidecar.agent.csi.pb import csi_pb2
from stoker_sidecar.errors import VolumeCode, VolumeError
from stoker_sidecar.volumes.core.publish import PublishRequest
from stoker_sidecar.volumes.core.report_volume import ReportVolume

_Mode = csi_pb2.VolumeCapability.AccessMode
_READER_MODES = {_Mode.SINGLE_NODE_READER_ONLY, _Mode.MULTI_NODE_READER_ONLY}
# The kubelet sends SINGLE_NODE_WRITER for every inline volume, regardless of its readOnly.
_SINGLE_NODE_WRITER_MODES = {_Mode.SINGLE_NODE_WRITER, _Mode.SINGLE_NODE_SINGLE_WRITER, _Mode.SINGLE_NODE_MULTI_WRITER}


_DIGEST = re.compile(r"[0-9a-f]{64}")
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")  # becomes the name of a folder
_LABEL, _SUBDOMAIN = re.compile(DNS_LABEL_PATTERN), re.compile(DNS_SUBDOMAIN_PATTERN)
_MOST_LABEL, _MOST_SUBDOMAIN = 63, 253  # characters of a Kubernetes name
MOST_VOLUME_ID = 512  # bytes: the operator names its PersistentVolumes NAMESPACE/NAME
_MOST_PATH = 4095  # bytes, by PATH_MAX
# Bytes of all attributes: twice the longest one, which is a sampling.
MOST_ATTRIBUTES = 2 * 4 * MOST_CHARACTERS
_SHOWN = 40  # characters of an invalid value in a sentence


@dataclass(frozen=True)
class UnpublishRequest:
    """The kubelet's request to unmount ``target``."""

    volume_id: str
    target: Path


@dataclass(frozen=True)
class StatsRequest:
    """The kubelet's request for a volume's size and health."""

    volume_id: str
    path: Path


def _invalid(sentence: str) -> VolumeError:
    return VolumeError(VolumeCode.INVALID_ARGUMENT, sentence)


def _required(value: str, field: str) -> str:
    if not value:
        raise _invalid(f"the request has no {field}: the CSI specification requires it")
    return value


def _size(text: str) -> int:
    return len(text.encode())


def _volume_id(text: str) -> str:
    if _size(_required(text, "volume_id")) > MOST_VOLUME_ID:
        raise _invalid(
            f"the volume_id {_shown(text)} has {_size(text)} bytes, and {MOST_VOLUME_ID} are allowed: "
            "shorten the PersistentVolume's volumeHandle"
        )
    return text


def _shown(text: str) -> str:
    return repr(shortened(text, _SHOWN))


def _target(text: str, kubelet_dir: Path) -> Path:
    """Check that a target path lies below the kubelet's folder, because this process mounts there as root."""
    if _size(text) > _MOST_PATH:
        raise _invalid(f"target_path {_shown(text)} has {_size(text)} bytes, and {_MOST_PATH} are allowed")
    path = PurePosixPath(_required(text, "target_path"))
    if (
        "\0" in text
        or ".." in path.parts
        or not path.is_relative_to(kubelet_dir)
        or len(path.parts) <= len(kubelet_dir.parts)
    ):
        raise _invalid(
            f"target_path {shortened(text, 2 * _SHOWN)!r} is not below the kubelet's folder {kubelet_dir}: "
            "set kubeletDir in the chart's values"
        )
    return Path(path)


def parse_publish(request: csi_pb2.NodePublishVolumeRequest, kubelet_dir: Path) -> PublishRequest:
    """Validate a publish request. Any user who may create pods writes its attributes.

    Raises VolumeError (INVALID_ARGUMENT) with a sentence.
    """
    volume_id = _volume_id(request.volume_id)
    target = _target(request.target_path, kubelet_dir)
    context = _bounded(request.volume_context)
    ephemeral = context.get(names.CSI_EPHEMERAL) == "true"
    scratch_bytes = _scratch(context, ephemeral)
    _check_capability(request, ephemeral, writable=bool(scratch_bytes))
    pod_namespace = _pod_namespace(context)
    return PublishRequest(
        volume_id=volume_id,
        target=target,
        dataset_namespace=_dataset_namespace(context) or pod_namespace,
        dataset=_dataset(context),
        pod_namespace=pod_namespace,
        pod=_pod(context),
        pod_uid=_pod_uid(context),
        ephemeral=ephemeral,
        version=_version(context),
        hints=read_hints(context),
        sampling=read_sampling(context),
        user_namespace=context.get(names.CSI_ATTRIBUTE_USER_NAMESPACE) == "true",
        scratch_bytes=scratch_bytes,
    )


def is_report(request: csi_pb2.NodePublishVolumeRequest) -> bool:
    """Return True for a report volume, even if it names a Dataset for older sidecars."""
    return request.volume_context.get(names.CSI_ATTRIBUTE_REPORT) == "true"


def parse_report(request: csi_pb2.NodePublishVolumeRequest, kubelet_dir: Path) -> ReportVolume:
    """Validate a request for a report volume. Only the kubelet names its pod. Raises VolumeError (INVALID_ARGUMENT)."""
    volume_id = _volume_id(request.volume_id)
    context = _bounded(request.volume_context)
    _check_capability(request, context.get(names.CSI_EPHEMERAL) == "true")
    uid = _pod_uid(context)
    if not uid:
        raise _invalid("the kubelet did not say which pod asks: the request has no pod UID")
    return ReportVolume(
        volume_id=volume_id,
        target=_target(request.target_path, kubelet_dir),
        namespace=_pod_namespace(context),
        pod=_pod(context),
        pod_uid=uid,
        hints=read_hints(context),
    )


def _scratch(context: Mapping[str, str], ephemeral: bool) -> int:
    """Return the size of the volume's writable layer; 0 without one."""
    text = context.get(names.CSI_ATTRIBUTE_SCRATCH, "")
    if not text:
        return 0
    if not ephemeral:
        raise _invalid("a claim's volume cannot have scratch, which belongs to one pod: use an inline volume")
    try:
        return parse_scratch(text)
    except ValueError as error:
        raise _invalid(f"volumeAttributes.{error}") from error


def _check_capability(request: csi_pb2.NodePublishVolumeRequest, ephemeral: bool, *, writable: bool = False) -> None:
    if not request.HasField("volume_capability"):
        raise _invalid("the request has no volume_capability: the CSI specification requires it")
    capability = request.volume_capability
    if capability.WhichOneof("access_type") != "mount":
        raise _invalid("a dataset is a file system and cannot be a block device: set volumeMode: Filesystem")
    mode = capability.access_mode.mode
    if writable:
        if request.readonly:
            raise _invalid("the volume has scratch and is read-only: remove csi.readOnly from the pod's volume")
        if mode in _SINGLE_NODE_WRITER_MODES:
            return
    if ephemeral and not request.readonly:
        raise _invalid(
            "the inline volume is not read-only, and newer container runtimes may make it writable in a container: "
            "set csi.readOnly: true in the pod's volume"
        )
    inline_mode = mode in _SINGLE_NODE_WRITER_MODES and request.readonly
    if mode not in _READER_MODES and not inline_mode:
        raise _invalid(
            f"access mode {_mode_name(mode)} would write, and a dataset is read-only: use accessModes: [ReadOnlyMany]"
        )


def _mode_name(mode: int) -> str:
    """Return the specification's name of a mode, or the number of an unknown newer one."""
    return _Mode.Mode.Name(mode) if mode in _Mode.Mode.values() else str(mode)


def _bounded(context: Mapping[str, str]) -> Mapping[str, str]:
    """Return the attributes if they are small enough."""
    size = sum(_size(name) + _size(value) for name, value in context.items())
    if size > MOST_ATTRIBUTES:
        raise _invalid(f"volumeAttributes have {size} bytes, and {MOST_ATTRIBUTES} are allowed: shorten them")
    return context


def _name(text: str, field: str, pattern: re.Pattern[str], most: int) -> str:
    """Return a valid Kubernetes name. The length is checked before the pattern, whose cost grows with the text."""
    if len(text) > most or pattern.fullmatch(text) is None:
        raise _invalid(
            f"{field} is {_shown(text)}: it must be a name of at most {most} characters of a-z, 0-9, '-'"
            + (" and '.'" if pattern is _SUBDOMAIN else "")
        )
    return text


def _pod(context: Mapping[str, str]) -> str:
    name = context.get(names.CSI_POD_NAME, "")
    return name and _name(name, names.CSI_POD_NAME, _SUBDOMAIN, _MOST_SUBDOMAIN)


def _pod_uid(context: Mapping[str, str]) -> str:
    uid = context.get(names.CSI_POD_UID, "")
    if uid and _UID.fullmatch(uid) is None:
        raise _invalid(f"the kubelet did not say which pod asks: {_shown(uid)} is no UID")
    return uid


def _pod_namespace(context: Mapping[str, str]) -> str:
    namespace = context.get(names.CSI_POD_NAMESPACE, "")
    if not namespace:
        # It determines access, so only the kubelet's value counts.
        raise _invalid(
            f"the kubelet did not say which pod asks: the CSIDriver {names.CSI_DRIVER} needs podInfoOnMount: true"
        )
    return _name(namespace, names.CSI_POD_NAMESPACE, _LABEL, _MOST_LABEL)


def _dataset_namespace(context: Mapping[str, str]) -> str:
    namespace = context.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE, "")
    field = f"volumeAttributes.{names.CSI_ATTRIBUTE_DATASET_NAMESPACE}"
    return namespace and _name(namespace, field, _LABEL, _MOST_LABEL)


def _dataset(context: Mapping[str, str]) -> str:
    name = context.get(names.CSI_ATTRIBUTE_DATASET, "")
    if not name:
        raise _invalid(
            f"the volume names no dataset: set volumeAttributes.{names.CSI_ATTRIBUTE_DATASET} to the name of a Dataset"
        )
    return _name(name, f"volumeAttributes.{names.CSI_ATTRIBUTE_DATASET}", _SUBDOMAIN, _MOST_SUBDOMAIN)


def _version(context: Mapping[str, str]) -> str:
    version = context.get(names.CSI_ATTRIBUTE_VERSION, "")
    if version and not _DIGEST.fullmatch(version):
        raise _invalid(
            f"volumeAttributes.{names.CSI_ATTRIBUTE_VERSION} is {_shown(version)}: it must be the whole version of a "
            "Dataset, 64 digits of 0-9 and a-f, or absent"
        )
    return version


def parse_unpublish(request: csi_pb2.NodeUnpublishVolumeRequest, kubelet_dir: Path) -> UnpublishRequest:
    """Validate an unpublish request. Raises VolumeError (INVALID_ARGUMENT) with a sentence.

    A volume id of any length is valid: an earlier release may have mounted it, and otherwise its pod could not end.
    """
    volume_id = _required(request.volume_id, "volume_id")
    return UnpublishRequest(volume_id, _target(request.target_path, kubelet_dir))


def parse_stats(request: csi_pb2.NodeGetVolumeStatsRequest) -> StatsRequest:
    """Validate a stats request, for any path. Raises VolumeError."""
    volume_id = _required(request.volume_id, "volume_id")
    return StatsRequest(volume_id, Path(_required(request.volume_path, "volume_path")))

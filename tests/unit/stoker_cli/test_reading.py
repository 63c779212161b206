"""How `stoker why` describes the mounts of a pod."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import MountMode
from stoker_api.node_caches.node_storage import MountPhase, NodeMount
from stoker_cli.pods.reading import sentences
from stoker_cli.pods.why import explain

INLINE = {"csi": {"driver": names.CSI_DRIVER, "volumeAttributes": {names.CSI_ATTRIBUTE_DATASET: "train"}}}
FOREIGN = {"csi": {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "train", "datasetNamespace": "other"}}}
CLAIM = {"persistentVolumeClaim": {"claimName": "train"}}


def pod(volume: dict[str, Any], **mount: str) -> dict[str, Any]:
    mounted = {"name": "data", "mountPath": "/data"} | mount
    containers = [{"name": "main", "volumeMounts": [mounted]}, {"name": "logger"}]
    spec = {"nodeName": "node-a", "containers": containers, "volumes": [{"name": "data"} | volume]}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u1"}, "spec": spec, "status": {"phase": "Running"}}


def row(mode: MountMode | None = MountMode.NATIVE, pod_uid: str = "u1") -> NodeMount:
    phase = MountPhase.PENDING if mode is None else MountPhase.MOUNTED
    return NodeMount(volume_id="v", dataset_namespace="n", dataset="train", pod_uid=pod_uid, phase=phase, mode=mode)


@pytest.mark.parametrize("volume", [INLINE, CLAIM])
def test_a_container_that_mounts_without_propagation_is_named(volume: dict[str, Any]) -> None:
    reads, unreached = sentences(pod(volume), [row()])
    assert reads == "It reads the Dataset n/train as files on the node's disk (native)."
    assert "'main' mounts it at /data without mountPropagation: HostToContainer" in unreached


@pytest.mark.parametrize("mode", MountMode)
def test_a_container_with_propagation_has_the_mode_of_its_node(mode: MountMode) -> None:
    (reads,) = sentences(pod(INLINE, mountPropagation="HostToContainer"), [row(mode)])
    assert f"({mode})" in reads


@pytest.mark.parametrize("key", ["subPath", "subPathExpr"])
def test_a_mount_with_subpath_that_is_not_native_is_named_with_the_remedy(key: str) -> None:
    mounting = pod(INLINE, **{"mountPropagation": "HostToContainer", key: "train"})
    reads, unreached = sentences(mounting, [row(MountMode.OVERLAY)])
    assert "(overlay)" in reads
    assert "'main' mounts it at /data with subPath" in unreached
    assert "Remove subPath, or set the chart value sidecar.hostPID to true" in unreached


def test_a_native_mount_with_subpath_needs_no_remedy() -> None:
    (reads,) = sentences(pod(INLINE, subPath="train"), [row(MountMode.NATIVE)])
    assert "(native)" in reads


@pytest.mark.parametrize(("mode", "said"), [(MountMode.FUSE, True), (MountMode.NATIVE, False)])
def test_a_pod_with_a_user_namespace_is_told_why_it_reads_through_fuse(mode: MountMode, said: bool) -> None:
    mapped = pod(INLINE, mountPropagation="HostToContainer")
    mapped["spec"]["hostUsers"] = False
    assert ("hostUsers: false" in " ".join(sentences(mapped, [row(mode)]))) is said


def test_other_volumes_and_other_pods_are_ignored() -> None:
    assert len(sentences(pod(FOREIGN), [row(), row(pod_uid="u2")])) == 1


def test_a_pending_volume_refers_to_kubectl_describe() -> None:
    assert "not mounted yet" in sentences(pod(INLINE, mountPropagation="HostToContainer"), [row(None)])[0]


def test_a_pod_with_an_own_dataset_volume_is_recognized() -> None:
    lines = explain(pod(CLAIM), [], [row()]).lines
    assert "uses a Dataset volume" in lines[0]
    assert "(native)" in lines[1]


def test_a_report_volume_is_not_a_dataset() -> None:
    reporting = {"csi": {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "train", "report": "true"}}}
    (reads,) = sentences(pod(reporting), [row()])
    assert "mountPropagation" not in reads

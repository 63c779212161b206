"""How `stoker why` tells the way a pod reads each Dataset, and which container a faster mount does not reach."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.dataset import MountMode
from stoker_api.node_storage import MountPhase, NodeMount
from stoker_cli.reading import sentences
from stoker_cli.why import explain

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
    assert reads == "It reads the Dataset n/train as plain files of the node (native)."
    assert "'main' mounts it at /data without mountPropagation: HostToContainer" in unreached


@pytest.mark.parametrize("mode", MountMode)
def test_a_container_with_propagation_reads_as_its_node_says(mode: MountMode) -> None:
    (reads,) = sentences(pod(INLINE, mountPropagation="HostToContainer"), [row(mode)])
    assert f"({mode})" in reads


def test_other_volumes_and_other_pods_are_not_spoken_of() -> None:
    assert len(sentences(pod(FOREIGN), [row(), row(pod_uid="u2")])) == 1


def test_a_volume_that_waits_points_to_the_nodes_reason() -> None:
    assert "not mounted yet" in sentences(pod(INLINE, mountPropagation="HostToContainer"), [row(None)])[0]


def test_a_pod_with_a_volume_of_its_own_is_not_called_a_stranger() -> None:
    lines = explain(pod(CLAIM), [], [row()]).lines
    assert "brought a volume of its own" in lines[0]
    assert "(native)" in lines[1]


def test_a_volume_to_report_through_shows_no_dataset() -> None:
    reporting = {"csi": {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "train", "report": "true"}}}
    (reads,) = sentences(pod(reporting), [row()])
    assert "mountPropagation" not in reads

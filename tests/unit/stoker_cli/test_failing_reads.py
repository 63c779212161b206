"""Failing reads in `stoker why`."""

from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.node_caches.nodecache import NodeCache
from stoker_cli.pods.why_command import named_datasets, sentences
from tests.support.cases import cases
from tests.unit.stoker_cli.builders import node_cache

V1, V2 = "1" * 64, "2" * 64
SAID = "fail since 2026-11-29T15:04:05Z, such as of a.jpg: refused"
READS = {"reason": "InvalidCredentials", "path": "a.jpg", "message": "refused", "since": "2026-11-29T15:04:05Z"}
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "uid-p"},
    "spec": {"nodeName": "node-1", "containers": []},
}


def cache(version: str = V1, uid: str = "uid-p") -> NodeCache:
    mount = {"volumeId": "v", "datasetNamespace": "n", "dataset": "d", "version": V1, "podUid": uid, "phase": "Mounted"}
    row = {"namespace": "n", "name": "d", "uid": "u", "failingReads": READS | {"version": version}}
    return node_cache("node-1", mounts=[mount], datasets=[row])


def dataset(node: str = "node-1", error: str = f"reads of pods {SAID}") -> Dataset:
    status = {"nodes": [{"name": node, "lastError": error}]}
    meta, spec = {"namespace": "n", "name": "d"}, {"source": {"uri": "s3://bucket/"}}
    return Dataset.model_validate({"metadata": meta, "spec": spec, "status": status})


def test_failing_reads_come_from_the_nodecache() -> None:
    assert sentences(POD, cache()) == (f"Its reads of the Dataset n/d {SAID}",)


@pytest.mark.parametrize(("version", "uid"), [(V2, "uid-p"), (V1, "uid-other")], ids=["version", "pod"])
def test_reads_of_another_pod_or_version_are_ignored(version: str, uid: str) -> None:
    assert sentences(POD, cache(version, uid)) == ()


def test_without_access_to_nodecaches_failing_reads_come_from_the_dataset() -> None:
    assert sentences(POD, None, [dataset()]) == (f"Its node's reads of the Dataset n/d {SAID}",)


@cases("other", node=dataset(node="node-2"), error=dataset(error="cache.quota keeps 3 of 10 files"))
def test_errors_on_other_nodes_are_ignored(other: Dataset) -> None:
    assert sentences(POD, None, [other]) == ()


def test_datasets_are_found_by_annotation_volume_and_claim() -> None:
    csi = {"driver": names.CSI_DRIVER, "volumeAttributes": {"dataset": "b", "datasetNamespace": "other"}}
    volumes = [{"name": "v", "csi": csi}, {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}]
    pod = {
        "metadata": POD["metadata"] | {"annotations": {names.ANNOTATION_DATASETS: "a@0123456789ab:/a, x/y:/y"}},
        "spec": POD["spec"] | {"volumes": volumes},
    }
    assert named_datasets(pod) == [("n", "a"), ("x", "y"), ("other", "b"), ("n", "c")]

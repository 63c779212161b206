"""Other projects' kinds with only the annotation: their manifests, their pods, the webhook and the gate."""

import re
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.gating.gating import Gating
from stoker_operator.core.gating.releases import Outcome
from stoker_operator.core.pods.injection import decide_injection
from stoker_operator.core.pods.pod_template import CONTAINER_LISTS
from stoker_operator.core.views.catalog import CatalogEntry
from stoker_operator.core.views.cluster import NodeView, parse_pod
from stoker_operator.core.views.resources import Resources
from stoker_operator.reconcilers.pod_gate import release_patch
from stoker_tuning.frameworks.pod_signs import pod_hints
from tests.contract.stoker_operator.job_controllers import MADE, Object, pods_of

NOW = 1_800_000_000.0
VERSION = "1" * 64
KEY = "vision/imagenet"
CATALOG = {KEY: CatalogEntry("vision", "imagenet", version=VERSION)}
ALL = sorted(MADE)


def injected(pod: Object) -> Object:
    patch = decide_injection(pod, "vision", CATALOG, reports=True)
    assert not isinstance(patch, Refusal), patch
    changed: Object = jsonpatch.apply_patch(pod, list(patch))
    return changed


def reading(name: str) -> list[Object]:
    """Return the pods after the webhook's changes."""
    pods = [pod for pod in pods_of(name) if names.ANNOTATION_DATASETS in pod["metadata"]["annotations"]]
    return [injected(_created(pod, at)) for at, pod in enumerate(pods)]


def _created(pod: Object, at: int) -> Object:
    meta = pod["metadata"]
    meta.setdefault("name", f"{meta.get('generateName', '')}x{at}")
    meta |= {"uid": f"pod-{at}", "creationTimestamp": "2027-01-15T08:00:00Z", "resourceVersion": str(at + 1)}
    return pod


def containers(pod: Object) -> list[dict[str, Any]]:
    return [one for field in CONTAINER_LISTS for one in pod["spec"].get(field) or ()]


@pytest.mark.parametrize("name", ALL)
def test_the_annotation_of_the_template_reaches_the_pods(name: str) -> None:
    assert reading(name)


@pytest.mark.parametrize("name", ALL)
def test_every_container_that_may_read_has_the_dataset_once_and_keeps_its_own_mounts(name: str) -> None:
    before = {pod["metadata"]["uid"]: pod for pod in (_created(pod, at) for at, pod in enumerate(pods_of(name)))}
    for pod in reading(name):
        chosen = pod["metadata"]["annotations"].get(names.ANNOTATION_CONTAINERS)
        for container in containers(pod):
            paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
            wanted = chosen is None or container["name"] == chosen
            assert paths.count("/data") == wanted, container["name"]
            assert len(paths) == len(set(paths))
    for uid, pod in before.items():
        kept = [mount["name"] for one in containers(pod) for mount in one.get("volumeMounts", [])]
        assert {volume["name"] for volume in pod["spec"].get("volumes", [])} >= set(kept), uid


@pytest.mark.parametrize("name", ALL)
def test_a_pod_is_held_by_one_gate_and_deciding_again_changes_nothing(name: str) -> None:
    for pod in reading(name):
        assert pod["spec"]["schedulingGates"] == [{"name": names.GATE_WARM}]
        assert decide_injection(pod, "vision", CATALOG, reports=True) == ()


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("volcano-job", "resnet"),
        ("pytorch-job", "resnet"),
        ("train-job", "resnet"),
        ("ray-cluster", "tune"),
        ("ray-job", "tune-f7r2k"),
    ],
)
def test_tuning_knows_the_job_by_its_controllers_labels(name: str, job: str) -> None:
    assert {pod_hints(pod).job for pod in reading(name)} == {job}


@pytest.mark.parametrize(("name", "framework"), [("volcano-job", "pytorch"), ("train-job", "pytorch")])
def test_tuning_knows_the_framework(name: str, framework: str) -> None:
    assert {pod_hints(pod).framework for pod in reading(name)} == {framework}


def test_the_head_of_a_ray_cluster_without_the_annotation_is_not_touched() -> None:
    heads = [pod for pod in pods_of("ray-cluster") if pod["metadata"]["labels"]["ray.io/node-type"] == "head"]
    assert [names.ANNOTATION_DATASETS in pod["metadata"]["annotations"] for pod in heads] == [False]


@pytest.mark.parametrize("name", ALL)
def test_pods_wait_while_their_data_is_cold_and_go_to_the_warm_node(name: str) -> None:
    pods = reading(name)
    assert not decided(pods, warm=False).releases
    released = decided(pods, warm=True).releases
    assert {release.pod.uid for release in released} == {pod["metadata"]["uid"] for pod in pods}
    assert {node.node for release in released for node in release.nodes} == {"node-1"}
    for release in released:
        pod = next(one for one in pods if one["metadata"]["uid"] == release.pod.uid)
        after = jsonpatch.apply_patch(pod, release_patch(release, NOW))
        assert not after["spec"]["schedulingGates"]
        assert after["spec"].get("schedulerName") == pod["spec"].get("schedulerName")


def test_a_gang_of_a_train_job_waits_for_all_of_its_pods() -> None:
    pods = reading("train-job")
    assert len(pods) == 2
    assert not decided(pods[:1], warm=True).releases
    assert len(decided(pods, warm=True).releases) == 2


def decided(pods: list[Object], *, warm: bool) -> Outcome:
    """Let the gating decide, on a cluster of one node."""
    gating = Gating()
    dataset = Dataset.model_validate(
        {
            "metadata": {"namespace": "vision", "name": "imagenet", "uid": "d"},
            "spec": {"source": {"uri": "s3://bucket/"}},
            "status": {"version": VERSION, "bytes": 1000},
        }
    )
    row = {"namespace": "vision", "name": "imagenet", "uid": "d", "version": VERSION, "bytes": 1000}
    row |= {"warmBytes": 1000, "phase": "Warm"} if warm else {"warmBytes": 10, "phase": "Warming"}
    given = {
        "namespace": "vision",
        "name": "imagenet",
        "uid": "d",
        "version": VERSION,
        "source": {"uri": "s3://bucket/"},
    }
    cache = NodeCache.model_validate(
        {"metadata": {"name": "node-1"}, "spec": {"datasets": [given]}, "status": {"datasets": [row]}}
    )
    room = Resources(64_000, 1 << 40, 110, {"nvidia.com/gpu": 64})
    gating.put_dataset(KEY, dataset)
    gating.put_node("node-1", NodeView(name="node-1", uid="n", sidecar_ready=True, allocatable=room), NOW)
    gating.put_cache("node-1", cache)
    for pod in pods:
        view = parse_pod(pod)
        gating.put_pod(view.key, view)
    return gating.decide(NOW)


@pytest.mark.parametrize("name", ALL)
def test_the_pods_of_a_job_have_one_of_the_labels_by_which_they_are_reported_together(name: str) -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "guides/goodput.md").read_text(encoding="utf-8")
    documented = {label for label in re.findall(r"`([\w./-]+)`", text) if "/" in label}
    had = [set(pod["metadata"]["labels"].items()) for pod in reading(name)]
    assert documented & {label for label, _ in set.intersection(*had)}

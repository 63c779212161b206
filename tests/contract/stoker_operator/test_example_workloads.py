"""The webhook finds the annotations of examples/workloads on the pods that their controllers make."""

from dataclasses import dataclass

import jsonpatch
import pytest

from stoker_api import names
from stoker_api.jobs.pod_annotations import Refusal
from stoker_api.jobs.sampling import parse_sampling_text
from stoker_operator.core.pods.injection import decide_injection
from stoker_operator.core.views.catalog import CatalogEntry
from tests.contract.stoker_operator import job_controllers as controllers
from tests.contract.stoker_operator.job_controllers import Object
from tests.support.workload_examples import WORKLOADS, documents

NAMESPACE = "vision"
CATALOG = {"vision/imagenet": CatalogEntry(NAMESPACE, "imagenet", version="1" * 64)}


@dataclass(frozen=True)
class Expected:
    """The pods of an example that read data. ``ranks``: the first rank of each in the declared order, if any."""

    pods: int = 1
    path: str = "/data"
    held: bool = False
    ranks: tuple[int, ...] = ()


COLD = Expected(ranks=(0,))  # starts at once, with a known order
EXPECTED = {
    "argo-workflow": Expected(held=True),
    "huggingface": COLD,
    "jax": COLD,
    "job": COLD,
    "jobset": Expected(2, held=True),
    "lightning": COLD,
    "notebook": Expected(path="/home/jovyan/data"),
    "pytorchjob": Expected(4, held=True),
    "rayjob": Expected(2, held=True),
    "tensorflow": COLD,
    "trainjob": Expected(4, held=True, ranks=(0, 8, 16, 24)),
}


def made(name: str) -> list[Object]:
    """Return the pods of an example."""
    given = documents(name)[-1]
    given["metadata"] = {"name": "resnet", "namespace": NAMESPACE, "uid": "1"} | given["metadata"]
    makers = {
        "Job": controllers.batch_job,
        "JobSet": controllers.job_set,
        "Pod": lambda pod: iter([pod]),
        "PyTorchJob": controllers.pytorch_job,
        "RayJob": controllers.ray_job,
        "TrainJob": lambda job: controllers.train_job(controllers.manifests("train-job")[0], job),
        "Workflow": controllers.workflow,
    }
    return list(makers[given["kind"]](given))


def reading(name: str) -> list[Object]:
    """Return the pods with the annotation, after the webhook's changes."""
    pods = [pod for pod in made(name) if names.ANNOTATION_DATASETS in pod["metadata"].get("annotations", {})]
    return list(map(injected, pods))


def injected(pod: Object) -> Object:
    patch = decide_injection(pod, NAMESPACE, CATALOG)
    assert not isinstance(patch, Refusal), patch
    return dict(jsonpatch.apply_patch(pod, list(patch)))


def test_every_example_is_here() -> None:
    assert sorted(EXPECTED) == [name for name in WORKLOADS if name != "train-script"]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_webhook_mounts_the_dataset_and_holds_pods_that_wait(name: str) -> None:
    expected, pods = EXPECTED[name], reading(name)
    assert len(pods) == expected.pods
    for pod in pods:
        chosen = pod["metadata"]["annotations"].get(names.ANNOTATION_CONTAINERS)
        for one in pod["spec"]["containers"]:
            paths = [mount["mountPath"] for mount in one.get("volumeMounts", ())]
            assert (expected.path in paths) is (chosen is None or one["name"] == chosen)
        assert bool(pod["spec"].get("schedulingGates")) is expected.held


@pytest.mark.parametrize("name", EXPECTED)
def test_a_gang_is_all_pods_that_read(name: str) -> None:
    pods = reading(name)
    sizes = {pod["metadata"]["annotations"].get(names.ANNOTATION_GANG_SIZE) for pod in pods}
    assert sizes == ({str(len(pods))} if len(pods) > 1 else {None})


@pytest.mark.parametrize("name", EXPECTED)
def test_each_pod_has_its_own_ranks_in_a_declared_order(name: str) -> None:
    volumes = [volume for pod in reading(name) for volume in pod["spec"]["volumes"] if "csi" in volume]
    attributes = (volume["csi"]["volumeAttributes"].get(names.CSI_ATTRIBUTE_SAMPLING) for volume in volumes)
    plans = [parse_sampling_text(text).plan() for text in attributes if text]
    assert tuple(plan.rank for plan in plans) == EXPECTED[name].ranks
    assert {plan.files.path for plan in plans} <= {"train"}

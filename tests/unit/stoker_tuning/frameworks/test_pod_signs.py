"""Hints in a pod's manifest, regardless of its author."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker_tuning.frameworks.answers import is_framework_name
from stoker_tuning.frameworks.pod_hints import HINTED_SOURCES, MOST_BATCH, MOST_GPUS, NO_HINTS
from stoker_tuning.frameworks.pod_signs import is_job_name, pod_hints
from tests.support.cases import cases


def pod(**container: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": [{"name": "main"} | container]}}


def env(**variables: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


@cases(
    "container, framework, source",
    ({"command": ["torchrun", "train.py"]}, "pytorch", "command"),
    ({"command": ["/opt/conda/bin/torchrun"]}, "pytorch", "command"),
    ({"args": ["-m", "torch.distributed.run", "train.py"]}, "pytorch", "command"),
    ({"command": ["sh", "-c", "cd /src && (accelerate launch train.py)"]}, "huggingface", "command"),
    ({"env": env(TF_CONFIG="{}")}, "tensorflow", "environment"),
    ({"env": env(PET_NNODES="2")}, "pytorch", "environment"),
    ({"env": env(JAX_COORDINATOR_ADDRESS="a:1")}, "jax", "environment"),
    ({"env": env(WORLD_SIZE="8", MASTER_ADDR="a")}, "pytorch", "environment"),
    ({"image": "pytorch/pytorch:2.4.0-cuda12"}, "pytorch", "image"),
    ({"image": "nvcr.io/nvidia/tensorflow:24.01-tf2-py3@sha256:abc"}, "tensorflow", "image"),
    ({"image": "huggingface/transformers-pytorch-gpu"}, "huggingface", "image"),
    ({"image": "ghcr.io/nvidia/jax"}, "jax", "image"),
)
def test_a_sign_tells_the_framework(container: dict[str, Any], framework: str, source: str) -> None:
    found = pod_hints(pod(**container))
    assert (found.framework, found.framework_source) == (framework, source)


@pytest.mark.parametrize(
    "container",
    [
        {},
        {"image": "python:3.12", "command": ["python", "train.py"]},
        {"image": "pytorch.example.com/team/app"},  # the host of a registry does not count
        {"image": "torchlight"},
        {"env": env(WORLD_SIZE="8")},
        {"args": ["--name=torchrun-1"]},
    ],
)
def test_what_may_be_anybodys_is_no_sign(container: dict[str, Any]) -> None:
    assert pod_hints(pod(**container)) == NO_HINTS


def test_a_launcher_is_surer_than_variables_and_these_are_surer_than_the_image() -> None:
    everything = {"command": ["accelerate", "launch"], "env": env(TF_CONFIG="{}"), "image": "pytorch/pytorch"}
    assert pod_hints(pod(**everything)).framework == "huggingface"
    assert pod_hints(pod(**everything | {"command": []})).framework == "tensorflow"


@cases(
    "container",
    {"args": ["--batch-size", "256"]},
    {"args": ["--batch_size=256"]},
    {"args": ["--per_device_train_batch_size", "256", "--batch-size", "8"]},
    {"args": ["data.workers=2", "batch_size=256"]},
    {"command": ["sh", "-c", "torchrun train.py --batch-size 256 --epochs 3"]},
    {"env": env(BATCH_SIZE="256")},
)
def test_a_batch_size_is_read(container: dict[str, Any]) -> None:
    assert pod_hints(pod(**container)).batch_size == 256


@pytest.mark.parametrize("text", ["-1", "0", "1e9", "1" * 10, "²", "many", ""])
def test_an_invalid_batch_size_is_no_hint(text: str) -> None:
    assert pod_hints(pod(args=["--batch-size", text])).batch_size == 0


@cases(
    "limits, gpus",
    ({"nvidia.com/gpu": "8"}, 8),
    ({"amd.com/gpu": 4}, 4),
    ({"example.com/gpu": "2", "cpu": "8"}, 2),
    ({"nvidia.com/mig-1g.5gb": "3"}, 3),
    ({"nvidia.com/gpu": "-1"}, 0),
    ({"nvidia.com/gpu": "9" * 9}, MOST_GPUS),
    ({"nvidia.com/gpu.shared": "8"}, 0),
    (["nvidia.com/gpu"], 0),
)
def test_gpus_are_the_sum_of_the_limits_of_containers(limits: Any, gpus: int) -> None:
    assert pod_hints(pod(resources={"limits": limits})).gpus == gpus


def test_the_gpus_of_all_containers_count() -> None:
    one = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    assert pod_hints({"spec": {"containers": [one, {}, one]}}).gpus == 4


@cases(
    "metadata, job",
    ({"labels": {"stoker.dev/training-job": "resnet", "batch.kubernetes.io/job-name": "resnet-workers"}}, "resnet"),
    ({"labels": {"jobset.sigs.k8s.io/jobset-name": "sweep"}}, "sweep"),
    ({"ownerReferences": [{"kind": "PyTorchJob", "name": "bert", "controller": True}]}, "bert"),
    ({"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": True}]}, ""),
    ({"ownerReferences": [{"kind": "Job", "name": "other"}]}, ""),
    ({"labels": {"job-name": "not a name"}}, ""),
    ({"labels": {"job-name": "a" * 254}}, ""),
)
def test_a_job_is_named_by_labels_then_by_its_controller(metadata: dict[str, Any], job: str) -> None:
    assert pod_hints({"metadata": metadata}).job == job


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "image": JSON | st.text(),
        "command": JSON | st.lists(st.text()),
        "args": JSON | st.lists(st.sampled_from(["--batch-size", "torchrun", "7", "="]) | st.text()),
        "env": JSON | st.lists(st.fixed_dictionaries({"name": JSON, "value": JSON})),
        "resources": JSON | st.fixed_dictionaries({"limits": st.dictionaries(st.just("a.b/gpu") | st.text(), JSON)}),
    },
)
METADATA = JSON | st.fixed_dictionaries({"labels": JSON | st.dictionaries(st.just("job-name"), JSON)})
PODS = JSON | st.fixed_dictionaries(
    {"metadata": METADATA, "spec": st.fixed_dictionaries({"containers": JSON | st.lists(CONTAINER)})}
)


@settings(max_examples=50)
@given(PODS)
def test_hints_of_any_pod_are_bounded(manifest: Any) -> None:
    found = pod_hints(manifest)
    assert 0 <= found.batch_size <= MOST_BATCH
    assert 0 <= found.gpus <= MOST_GPUS
    assert not found.job or is_job_name(found.job)
    assert (found.framework_source in HINTED_SOURCES) is is_framework_name(found.framework)

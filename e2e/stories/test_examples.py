"""Examples of examples/workloads run as they are. Only their images are others: the cluster has no registry."""

import hashlib
import json
import re
from collections.abc import Iterator

import pytest

from e2e.cluster import CommandFailedError
from e2e.cluster.images import BUSYBOX, docker_archive
from e2e.stories.test_queues import pods_of
from e2e.support.built import TRAINER_IMAGE, TRAINING_IMAGE, build_trainer_image, build_training_image
from e2e.support.world import PATIENTLY, Home, World, condition
from tests.support.workload_examples import FOLDER, image_folder

FILES = image_folder(3, 20)
NOTEBOOK_IMAGE = "docker.io/stoker-e2e/notebook:dev"
ENDED = "epoch 3/3"


@pytest.fixture(scope="module", autouse=True)
def imagenet(world: World, shared_home: Home) -> None:
    """Make the Dataset that the examples read, cold until a pod needs it, and load PyTorch's image."""
    world.cluster.load_image(build_training_image())
    bucket = shared_home.bucket()
    bucket.put(FILES)
    shared_home.dataset("imagenet", bucket, cache={"replicas": 0}, warm={"policy": "OnDemand"})
    apply(world, shared_home, "train-script")


@pytest.fixture
def jobset(world: World) -> Iterator[None]:
    """Run JobSet's controller."""
    world.cluster.queueing.start()
    yield
    world.cluster.queueing.stop()


def apply(world: World, home: Home, name: str, image: str = TRAINING_IMAGE) -> None:
    text = re.sub(r"image: \S+", f"image: {image}", (FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    world.kubectl("apply", "-n", home.namespace, "-f", "-", stdin=text)


def test_a_pytorch_job_starts_on_cold_data_and_trains(world: World, shared_home: Home) -> None:
    apply(world, shared_home, "job")
    world.kubectl("wait", "--for=condition=Complete", "job/resnet", "-n", shared_home.namespace, PATIENTLY)
    (pod,) = pods_of(world, shared_home, "job-name=resnet")
    assert "stoker.dev/held-since" not in pod["metadata"]["annotations"]
    assert ENDED in world.logs(pod["metadata"]["name"], shared_home.namespace)


def test_the_trainer_of_hugging_face_trains(world: World, shared_home: Home) -> None:
    world.cluster.load_image(build_trainer_image())
    apply(world, shared_home, "huggingface", TRAINER_IMAGE)
    world.kubectl("wait", "--for=condition=Complete", "job/huggingface", "-n", shared_home.namespace, PATIENTLY)
    (pod,) = pods_of(world, shared_home, "job-name=huggingface")
    assert world.logs(pod["metadata"]["name"], shared_home.namespace).splitlines()[-1].startswith("loss ")


def test_the_nodes_of_a_job_set_start_together_and_train_as_one(world: World, shared_home: Home, jobset: None) -> None:
    apply(world, shared_home, "jobset")
    world.wait("jobset", "resnet", shared_home.namespace, lambda it: condition(it, "Completed") == "True")
    pods = pods_of(world, shared_home, "jobset.sigs.k8s.io/jobset-name=resnet")
    records = [json.loads(pod["metadata"]["annotations"]["stoker.dev/released"]) for pod in pods]
    assert [record["reason"] for record in records] == ["Released", "Released"]
    said = [world.logs(pod["metadata"]["name"], shared_home.namespace) for pod in pods]
    assert all(f"rank {rank} of 2: {ENDED}" in "".join(said) for rank in range(2)), said


def test_a_notebook_reads_its_data_and_cannot_change_it(world: World, shared_home: Home) -> None:
    # A stand-in for Jupyter: its program only waits.
    programs = {"bin/busybox": BUSYBOX.read_bytes(), "bin/start-notebook.py": b"#!/bin/sh\nexec sleep 3600\n"}
    links = {f"bin/{name}": "busybox" for name in ("sh", "sleep", "sha256sum", "touch")}
    archive = world.cluster.paths.state / "notebook.tar"
    archive.write_bytes(docker_archive(NOTEBOOK_IMAGE, programs, links, []))
    world.cluster.load_image(archive)
    apply(world, shared_home, "notebook", NOTEBOOK_IMAGE)
    world.kubectl("wait", "--for=condition=Ready", "pod/notebook", "-n", shared_home.namespace, PATIENTLY)
    enter = ("exec", "notebook", "-n", shared_home.namespace, "--")
    name, content = next(iter(FILES.items()))
    told = world.kubectl(*enter, "sha256sum", f"/home/jovyan/data/{name}")
    assert told.split()[0] == hashlib.sha256(content).hexdigest()
    world.kubectl(*enter, "sh", "-c", "cd /home/jovyan/work; touch mine")
    with pytest.raises(CommandFailedError, match="Read-only file system"):
        world.kubectl(*enter, "touch", "/home/jovyan/data/mine")

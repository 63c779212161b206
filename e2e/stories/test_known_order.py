"""A training says its order by stoker-client: it is followed and read ahead into memory, and its time is told apart."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster.processes import wait_for
from e2e.stories.test_training_job import training_job, workers
from e2e.support.built import IMAGE, ROOT
from e2e.support.manifests import Object
from e2e.support.world import PATIENCE, Home, World, condition, metric

COUNT, SIZE = 1000, 16_000
FILES = {f"train/{n % 10}/{n:04}.jpg": n.to_bytes(2) * (SIZE // 2) for n in range(COUNT)}
# Some seven seconds an epoch; prints the share of its time in which it waited for batches, as it measured it itself.
_TRAIN = """
import pathlib, time
from stoker_client import GlobalShuffleSampler, TrainingReport, batches

names = sorted(pathlib.Path("/data/train").glob("*/*"))
sampler = GlobalShuffleSampler(len(names), seed=3, rank=0, world_size=1)
report = TrainingReport(rank=0, world_size=1)

def loaded():
    for batch in batches(sampler, 10):
        time.sleep(0.03)  # what decoding takes, of the training that is played
        yield [names[sample].read_bytes() for sample in batch]

began, computed = time.monotonic(), 0.0
for epoch in range(1000):
    sampler.set_epoch(epoch)
    report.order(sampler, batch_size=10, files={"path": "train"})
    report.say(phase="Training", epoch=epoch)
    for batch in report.loader(loaded(), batch_size=10):
        came = time.monotonic()
        time.sleep(0.04)  # its step: less than its loader takes, so that it waits
        computed += time.monotonic() - came
    print(1 - computed / (time.monotonic() - began), flush=True)
"""


@dataclass(frozen=True)
class Training:
    """A pod that trains on a Dataset which is whole on its node."""

    world: World
    namespace: str
    pod: str
    node: str

    def row(self) -> Object:
        """Return what the node says of the pod; empty: nothing."""
        rows = self.world.get("nodecache", self.node)["status"].get("workloads", [])
        return next((row for row in rows if row["pod"] == f"{self.namespace}/{self.pod}"), {})


@pytest.fixture(scope="module")
def training(world: World, shared_home: Home) -> Training:
    bucket = shared_home.bucket()
    bucket.put(FILES)
    shared_home.dataset("train", bucket)
    shared_home.ready("train")
    world.apply(client_source(shared_home), training_that_says_its_order(shared_home))

    def follows(job: Object) -> bool:
        return condition(job, "Order") == "True"

    world.wait("trainingjob", "run", shared_home.namespace, follows)
    (worker,) = workers(world, shared_home, "run")
    return Training(world, shared_home.namespace, worker["metadata"]["name"], worker["spec"]["nodeName"])


def client_source(home: Home) -> Object:
    modules = Path(ROOT, "client", "stoker_client").glob("*.py")
    meta = {"name": "stoker-client", "namespace": home.namespace}
    data = {module.name: module.read_text() for module in modules}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def training_that_says_its_order(home: Home) -> Object:
    container = {
        "image": IMAGE,
        "command": ["python3", "-c", _TRAIN],
        "env": [{"name": "PYTHONPATH", "value": "/client"}],
        "securityContext": {"runAsUser": 12345, "runAsGroup": 12345, "allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "client", "mountPath": "/client/stoker_client"}],
    }
    job = training_job(home.namespace, "run", container)
    job["spec"]["template"]["spec"]["volumes"] = [{"name": "client", "configMap": {"name": "stoker-client"}}]
    return job


def test_the_order_that_a_pod_says_by_its_socket_is_known_and_its_jobs(training: Training) -> None:
    row = training.row()
    assert (row["order"], row["orderSource"]) == ("Known", "Report")
    assert row["orderAgreement"] >= 95
    job = training.world.get("trainingjob", "run", training.namespace)
    assert condition(job, "Order", "reason") == "OrderKnown"
    assert condition(job, "Order", "message").endswith("of 1 of 1 workers came as they report")


def test_where_the_time_of_a_pod_goes_is_told_and_is_what_it_measures_itself(training: Training) -> None:
    wait_for("the pod's stall", lambda: training.row().get("stallSource") == "report", PATIENCE)
    profile = ("profile", f"pod/{training.pod}", "-n", training.namespace)
    told = json.loads(training.world.stoker(*profile, "--for", "10s", "-o", "json"))
    parts = told["parts"]
    assert abs(sum(parts.values()) - told["seconds"]) < 0.01
    # All of it is on the node's disk.
    assert parts["fetch"] == 0
    measured = float(training.world.logs(training.pod, training.namespace).split()[-1])
    assert abs(parts["preparation"] / told["seconds"] - measured) < 0.1
    table = training.world.stoker(*profile, "--for", "1s").splitlines()
    assert {"compute", "preparation", "fetch", "sum"} <= {line.split()[0] for line in table if line.strip()}


def test_what_was_dropped_from_memory_is_read_again_before_the_pod_asks(training: Training) -> None:
    world = training.world
    (mount,) = {
        row["mode"]
        for row in world.get("nodecache", training.node)["status"]["mounts"]
        if row["podNamespace"] == training.namespace
    }
    assert mount == "native"
    before = read_ahead(training)
    assert drop_pages(training) == COUNT
    wait_for("pages to be read ahead", lambda: read_ahead(training) > before + COUNT * SIZE / 2, PATIENCE)
    assert training.row()["orderMessage"].endswith(", read ahead from the disk into memory")


def drop_pages(training: Training) -> int:
    """Drop the files of the Dataset from memory, and return how many there are."""
    uid = training.world.get("dataset", "train", training.namespace)["metadata"]["uid"]
    # The node's disk is a folder of this machine: the kernel keeps one copy of its pages, whoever drops them.
    node = training.world.cluster.paths.nodes / training.node
    files = list((node / "var/lib/stoker/cache/datasets" / uid / "versions").rglob("*.jpg"))
    os.sync()  # pages that are not on the disk yet stay
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return len(files)


def read_ahead(training: Training) -> float:
    return metric(training.world.sidecar_of(training.node), "stoker_foreseen_bytes_total")

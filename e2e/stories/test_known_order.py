"""A training reports its order through stoker-client: nodes follow it, prefetch into memory, and split its time."""

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

CLIENT = Path(ROOT, "client", "stoker_client")
COUNT, SIZE = 1000, 16_000
FILES = {f"train/{n % 10}/{n:04}.jpg": n.to_bytes(2) * (SIZE // 2) for n in range(COUNT)}
# About seven seconds per epoch. It prints its own measurement of the share of time spent waiting for batches.
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
    """A pod that trains on a Dataset with a complete copy on its node."""

    world: World
    namespace: str
    pod: str
    node: str

    def row(self) -> Object:
        """Return the node's report about the pod, or empty."""
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


def client_files() -> dict[str, str]:
    """Return the client's modules as keys of a ConfigMap, which have no slashes, with their paths."""
    paths = (str(module.relative_to(CLIENT)) for module in CLIENT.rglob("*.py"))
    return {path.replace("/", "."): path for path in paths}


def client_source(home: Home) -> Object:
    meta = {"name": "stoker-client", "namespace": home.namespace}
    data = {key: (CLIENT / path).read_text() for key, path in client_files().items()}
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
    items = [{"key": key, "path": path} for key, path in client_files().items()]
    source = {"name": "stoker-client", "items": items}
    job["spec"]["template"]["spec"]["volumes"] = [{"name": "client", "configMap": source}]
    return job


def test_the_order_that_a_pod_says_by_its_socket_is_known_and_its_jobs(training: Training) -> None:
    def is_known() -> bool:
        row = training.row()
        agreement = row.get("orderAgreement") or 0
        return (row.get("order"), row.get("orderSource")) == ("Known", "Report") and agreement >= 95

    def agrees(job: Object) -> bool:
        message = condition(job, "Order", "message").endswith("of 1 of 1 workers came as they report")
        return condition(job, "Order", "reason") == "OrderKnown" and message

    # A report of an epoch may overtake observed reads. Then the comparison starts again, with no verdict for seconds.
    wait_for("the order to be known", is_known, PATIENCE)
    training.world.wait("trainingjob", "run", training.namespace, agrees)


def test_where_the_time_of_a_pod_goes_is_told_and_is_what_it_measures_itself(training: Training) -> None:
    wait_for("the pod's stall", lambda: training.row().get("stallSource") == "report", PATIENCE)
    profile = ("profile", f"pod/{training.pod}", "-n", training.namespace)
    told = json.loads(training.world.stoker(*profile, "--for", "10s", "-o", "json"))
    parts = told["parts"]
    assert abs(sum(parts.values()) - told["seconds"]) < 0.01
    # The node's disk has all of it.
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
    wait_for(
        "the order to be known again",
        lambda: training.row().get("orderMessage", "").endswith(", read ahead from the disk into memory"),
        PATIENCE,
    )


def drop_pages(training: Training) -> int:
    """Drop the files of the Dataset from memory. Return their number."""
    uid = training.world.get("dataset", "train", training.namespace)["metadata"]["uid"]
    # The node's disk is a folder of this machine: the kernel has one copy of its pages, for all processes.
    node = training.world.cluster.paths.nodes / training.node
    files = list((node / "var/lib/stoker/cache/datasets" / uid / "versions").rglob("*.jpg"))
    os.sync()  # dirty pages stay
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return len(files)


def read_ahead(training: Training) -> float:
    return metric(training.world.sidecar_of(training.node), "stoker_foreseen_bytes_total")

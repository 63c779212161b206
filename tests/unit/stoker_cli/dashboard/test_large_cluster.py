"""The first view of 5,000 nodes and 1,000 Datasets is small and fast."""

import time
from dataclasses import replace
from typing import Any

import pytest

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_cli.dashboard.core.cluster_data import ClusterData, HeldPod, KindAccess
from stoker_cli.dashboard.core.node_table import DatasetIndex, NodeSummary, NodeTable
from stoker_cli.pods.top_row import TopRow
from stoker_kube import resources
from tests.unit.stoker_cli.dashboard.users import SINCE, Browser, cluster, dataset, held, job

NODES, DATASETS, PODS = 5_000, 1_000, 5_000
PATHS = [
    "/",
    "/?first=209&count=209",
    "/datasets",
    "/datasets/namespace-00/dataset-0000",
    "/nodes",
    "/jobs/vision/ddp",
    "/pods",
]
MOST_BYTES, MOST_SECONDS = 1_000_000, 1.0


def large_cluster() -> ClusterData:
    """Make a cluster where each node holds each Dataset, each Dataset lists 50 nodes, and all texts are long."""
    index = DatasetIndex()
    statuses = [{"name": f"node-{number:04}", "phase": "Warm", "warmBytes": 100} for number in range(50)]
    datasets = {}
    for number in range(DATASETS):
        raw = dataset(f"namespace-{number % 40:02}", f"dataset-{number:04}", nodes=statuses)
        one = Dataset.model_validate(raw)
        index.add(one.key)
        datasets[one.key] = one
    cells = bytes((4, 57)) * DATASETS
    nodes = tuple(
        NodeSummary(f"gpu-node-{number:04}.rack-7.example", held=DATASETS, cells=cells) for number in range(NODES)
    )
    read = KindAccess(read=True)
    key = next(iter(datasets))
    held = [HeldPod("vision", f"worker-{at}", "x" * 500, SINCE, (key,), "TrainingJob ddp") for at in range(PODS)]
    rows = [NodeWorkload(pod=f"vision/p-{at}", phase="Training", datasets=(key,), job="ddp") for at in range(PODS)]
    pods = [TopRow("node-1", row) for row in rows]
    data = ClusterData("vision", datasets, held=held, workloads=pods, nodes=NodeTable(nodes, index))
    jobs = {"vision/ddp": TrainingJob.model_validate(job())}
    kinds = ("datasets", "nodes", "jobs", "held", "workloads")
    accesses: dict[str, Any] = {f"{kind}_access": read for kind in kinds}
    return replace(data, jobs=jobs, **accesses)


@pytest.fixture(scope="module")
def data() -> ClusterData:
    return large_cluster()


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_view_of_a_large_cluster_is_small_and_fast(data: ClusterData, path: str, refused: bool) -> None:
    browser = Browser(cluster()).sign_in()
    browser.reader.data = replace(data, nodes_access=KindAccess(read=True, refused=refused))
    browser.text("/jobs")  # loads the templates
    for _ in range(3):  # the best of three, as other programs run on the machine
        start = time.process_time()
        html = browser.text(path)
        used = time.process_time() - start
        if used <= MOST_SECONDS:
            break
    assert len(html.encode()) <= MOST_BYTES
    assert used <= MOST_SECONDS


def test_large_annotations_of_pods_are_cut_when_they_are_read() -> None:
    kube = cluster()
    pod = held("large", reason="x" * 100_000)
    wanted = ",".join(f"dataset-{number}:/data/{number}" for number in range(5_000))
    pod["metadata"]["annotations"] |= {names.ANNOTATION_DATASETS: wanted, names.ANNOTATION_HELD_SINCE: "y" * 50_000}
    kube.seed(resources.PODS, pod)
    [read] = [each for each in Browser(kube).sign_in().reader.data.held if each.name == "large"]
    assert len(read.reason) + len(read.since) + sum(map(len, read.datasets)) < 10_000

"""The objects of a simulated cluster: nodes, Datasets and pods, and which nodes' sidecars behave badly. Pure."""

from enum import StrEnum

from stoker_api import names
from stoker_kube.api import Object

SYSTEM = "stoker-system"  # where Stoker is installed
WORK = "training"  # the namespace of Datasets and pods
LABEL_TEMPER = "bench.stoker.dev/temper"
GATE = "bench.stoker.dev/wait"  # of pods that Stoker has nothing to do with
LABEL_PROBE = "bench.stoker.dev/probe"
_PREFIX = "kwok-"
# Of every 50 nodes one each, at places that have nothing to do with the order in which nodes are made.
_EVERY = 50
# Room for as many pods as a measurement makes: this is no test of a scheduler's bin packing.
_ROOM = {"cpu": "512", "memory": "4Ti", "pods": "2000", "ephemeral-storage": "4Ti"}


class Temper(StrEnum):
    """How the sidecar of a node behaves."""

    HONEST = "honest"
    SLOW = "slow"  # warms five times as long
    SILENT = "silent"  # its pod is ready, and it never says a word
    WRONG = "wrong"  # writes statuses that make no sense, again and again


_BAD = {7: Temper.SLOW, 19: Temper.SILENT, 31: Temper.WRONG}


def temper(index: int) -> Temper:
    """Return how the sidecar of the node with this number behaves."""
    return _BAD.get(index % _EVERY, Temper.HONEST)


def honest(nodes: int) -> int:
    """Count those of so many nodes that behave."""
    return sum(temper(index) is Temper.HONEST for index in range(nodes))


def node_name(index: int) -> str:
    """Return the name of a node."""
    return f"{_PREFIX}{index:05d}"


def node_index(name: str) -> int:
    """Return the number of a node, by its name."""
    return int(name.removeprefix(_PREFIX))


def node(index: int) -> Object:
    """Return a Node that kwok keeps alive."""
    labels = {"kubernetes.io/hostname": node_name(index), LABEL_TEMPER: temper(index).value}
    metadata = {"name": node_name(index), "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"metadata": metadata, "status": {"allocatable": _ROOM, "capacity": _ROOM}}


def dataset(name: str, replicas: int | str, *, probe: bool = False, paused: bool = False) -> Object:
    """Return a Dataset; one with a number of replicas lies only on nodes whose sidecars behave.

    ``probe``: it is applied to be watched, and deleted. ``paused``: nodes do not warm it yet.
    """
    selector = {} if replicas == "all" else {"nodeSelector": {LABEL_TEMPER: Temper.HONEST.value}}
    metadata = {"namespace": WORK, "name": name, "labels": {LABEL_PROBE: "true"} if probe else {}}
    source = {"uri": f"s3://bench/{name}/", "credentials": {"secretRef": {"name": "keys"}}}
    spec = {"source": source, "cache": {"replicas": replicas} | selector, "warm": {"paused": paused}}
    return {"metadata": metadata, "spec": spec}


def pod(name: str, dataset_name: str) -> Object:
    """Return a pod that reads a Dataset, as a user writes it."""
    metadata = {
        "namespace": WORK,
        "name": name,
        "labels": {LABEL_PROBE: "true"},
        "annotations": {names.ANNOTATION_DATASETS: f"{dataset_name}:/data"},
    }
    container = {"name": "train", "image": "train", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}


def gated_pod(name: str) -> Object:
    """Return a pod that reads no Dataset, and has a gate that only who makes it knows."""
    plain = pod(name, "")
    metadata = {key: value for key, value in plain["metadata"].items() if key != "annotations"}
    return {"metadata": metadata, "spec": plain["spec"] | {"schedulingGates": [{"name": GATE}]}}

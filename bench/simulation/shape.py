"""The objects of a simulated cluster: nodes, Datasets and pods, and the nodes with faulty sidecars. Pure."""

from enum import StrEnum

from stoker_api import names
from stoker_kube.api import Object

SYSTEM = "stoker-system"  # the namespace of Stoker
WORK = "training"  # the namespace of Datasets and pods
LABEL_TEMPER = "bench.stoker.dev/temper"
GATE = "bench.stoker.dev/wait"  # of pods without Stoker
LABEL_PROBE = "bench.stoker.dev/probe"
_PREFIX = "kwok-"
# One each of every 50 nodes, at places unrelated to the order in which nodes are made.
_EVERY = 50
# Room for all pods of a measurement: this does not test the scheduler's bin packing.
_ROOM = {"cpu": "512", "memory": "4Ti", "pods": "2000", "ephemeral-storage": "4Ti"}


class Temper(StrEnum):
    """How the sidecar of a node behaves."""

    HONEST = "honest"
    SLOW = "slow"  # warms five times as long
    SILENT = "silent"  # its pod is ready, but it never reports
    WRONG = "wrong"  # repeatedly writes invalid statuses


_BAD = {7: Temper.SLOW, 19: Temper.SILENT, 31: Temper.WRONG}


def temper(index: int) -> Temper:
    """Return the behavior of the sidecar on the node with this number."""
    return _BAD.get(index % _EVERY, Temper.HONEST)


def honest(nodes: int) -> int:
    """Return the number of well-behaved nodes among this number of nodes."""
    return sum(temper(index) is Temper.HONEST for index in range(nodes))


def node_name(index: int) -> str:
    """Return the name of a node."""
    return f"{_PREFIX}{index:05d}"


def node_index(name: str) -> int:
    """Return the number of a node from its name."""
    return int(name.removeprefix(_PREFIX))


def node(index: int) -> Object:
    """Return a Node that kwok simulates."""
    labels = {"kubernetes.io/hostname": node_name(index), LABEL_TEMPER: temper(index).value}
    metadata = {"name": node_name(index), "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"metadata": metadata, "status": {"allocatable": _ROOM, "capacity": _ROOM}}


def dataset(name: str, replicas: int | str, *, probe: bool = False, paused: bool = False) -> Object:
    """Return a Dataset. One with a number of replicas is only on nodes with well-behaved sidecars.

    With ``probe``, it is applied for observation and then deleted. With ``paused``, nodes do not warm it.
    """
    selector = {} if replicas == "all" else {"nodeSelector": {LABEL_TEMPER: Temper.HONEST.value}}
    metadata = {"namespace": WORK, "name": name, "labels": {LABEL_PROBE: "true"} if probe else {}}
    source = {"uri": f"s3://bench/{name}/", "credentials": {"secretRef": {"name": "keys"}}}
    spec = {"source": source, "cache": {"replicas": replicas} | selector, "warm": {"paused": paused}}
    return {"metadata": metadata, "spec": spec}


def pod(name: str, dataset_name: str) -> Object:
    """Return a pod that reads a Dataset, as users write it."""
    metadata = {
        "namespace": WORK,
        "name": name,
        "labels": {LABEL_PROBE: "true"},
        "annotations": {names.ANNOTATION_DATASETS: f"{dataset_name}:/data"},
    }
    container = {"name": "train", "image": "train", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}


def gated_pod(name: str) -> Object:
    """Return a pod that reads no Dataset, with a gate that only its creator knows."""
    plain = pod(name, "")
    metadata = {key: value for key, value in plain["metadata"].items() if key != "annotations"}
    return {"metadata": metadata, "spec": plain["spec"] | {"schedulingGates": [{"name": GATE}]}}

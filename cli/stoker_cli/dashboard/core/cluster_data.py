"""The objects that the pages show, as last read, with the rights that were missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import shortened
from stoker_cli.access.pod_figures import ASK_FOR_NODES
from stoker_cli.dashboard.core.node_table import NodeTable
from stoker_cli.pods.top_row import TopRow
from stoker_cli.pods.why import awaited_datasets

Object = Mapping[str, Any]
# A tenant may write 256 KiB of annotations to each of thousands of pods.
_MOST_OF_REASON, _MOST_OF_KEY, _MOST_OF_TIME, _MOST_DATASETS = 500, 317, 40, 20


@dataclass(frozen=True)
class HeldPod:
    """A held pod. ``since``: RFC 3339, empty if unknown. ``job``: its controller, as ``Kind name``."""

    namespace: str
    name: str
    reason: str
    since: str
    datasets: tuple[str, ...]
    job: str

    @property
    def key(self) -> str:
        """The pod's ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def held_pod(pod: Object) -> HeldPod | None:
    """Return the pod, or None if Stoker does not hold it."""
    if not any(gate.get("name") == names.GATE_WARM for gate in pod["spec"].get("schedulingGates") or ()):
        return None
    meta = pod["metadata"]
    annotations = meta.get("annotations") or {}
    reason = annotations.get(names.ANNOTATION_WAITING) or "The operator has not given a reason yet."
    since = annotations.get(names.ANNOTATION_HELD_SINCE) or meta.get("creationTimestamp") or ""
    datasets = tuple(shortened("/".join(key), _MOST_OF_KEY) for key in islice(awaited_datasets(pod), _MOST_DATASETS))
    reason, since = shortened(reason, _MOST_OF_REASON), since[:_MOST_OF_TIME]
    return HeldPod(meta["namespace"], meta["name"], reason, since, datasets, shortened(_controller(meta), _MOST_OF_KEY))


def _controller(meta: Object) -> str:
    if job := (meta.get("labels") or {}).get(names.LABEL_TRAINING_JOB):
        return f"TrainingJob {job}"
    owners = (ref for ref in meta.get("ownerReferences") or () if ref.get("controller"))
    return next((f"{ref.get('kind')} {ref.get('name')}" for ref in owners), "")


@dataclass(frozen=True)
class KindAccess:
    """How a kind was read. ``notice``: a missing right, or why its objects are old. Empty: neither.

    ``read`` is False until the first complete answer. ``refused``: the user may not list it.
    """

    notice: str = ""
    read: bool = False
    refused: bool = False

    def shown(self, figure: str) -> str:
        """Return a figure of these objects, or why there is none."""
        if self.refused:
            return "not readable"
        return figure if self.read else "not read yet"


@dataclass(frozen=True)
class ClusterData:
    """All objects by their keys. ``namespace`` is that of the user."""

    namespace: str = ""
    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    jobs: Mapping[str, TrainingJob] = field(default_factory=dict)
    held: Sequence[HeldPod] = ()
    workloads: Sequence[TopRow] = ()
    nodes: NodeTable = field(default_factory=NodeTable)
    datasets_access: KindAccess = KindAccess()
    jobs_access: KindAccess = KindAccess()
    held_access: KindAccess = KindAccess()
    workloads_access: KindAccess = KindAccess()
    nodes_access: KindAccess = KindAccess()

    def notices(self, *kinds: str) -> tuple[str, ...]:
        """Return the notices of these kinds, or of all, without duplicates."""
        chosen = kinds or tuple(
            each.name.removesuffix("_access") for each in fields(self) if each.name.endswith("_access")
        )
        accesses = [(kind, getattr(self, f"{kind}_access")) for kind in chosen]
        words = [
            access.notice or ("" if access.read else f"The {_WORDS[kind]} are not read completely yet.")
            for kind, access in accesses
        ]
        return tuple(dict.fromkeys(word for word in words if word))


_WORDS = {
    "datasets": "Datasets",
    "jobs": "TrainingJobs",
    "held": "held pods",
    "workloads": "figures of pods",
    "nodes": "NodeCaches",
}


_EVERYWHERE = "Only namespace {namespace} is shown: you may not list {resource} in all namespaces."
_NOWHERE = (
    "You may not list {resource} in namespace {namespace}. Ask an administrator for the verb list there, which the "
    "ClusterRole view includes."
)
_CHANGE = (
    "You may not change this. Ask for the verb patch on {resource} in namespace {namespace}, which the ClusterRole "
    "edit includes."
)


def only_one_namespace(resource: str, namespace: str) -> str:
    """Return the notice of a list of one namespace."""
    return _EVERYWHERE.format(resource=resource, namespace=namespace)


def nothing_readable(resource: str, namespace: str) -> str:
    """Return the notice of a kind that the user may not list. NodeCaches have no namespace."""
    if resource == "nodecaches.stoker.dev":
        return ASK_FOR_NODES
    return _NOWHERE.format(resource=resource, namespace=namespace)


def no_change(resource: str, namespace: str) -> str:
    """Return why an action is refused."""
    return _CHANGE.format(resource=resource, namespace=namespace)

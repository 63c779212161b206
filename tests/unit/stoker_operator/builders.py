"""Builders for tests of Datasets: short descriptions of clusters."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.datasetclass import DatasetClass
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.meta import Condition
from stoker_api.names import ConditionType
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.incremental.decision import IncrementalDecision, Versions, Wanted
from stoker_operator.core.views.cluster import COMPONENT_LABEL, SIDECAR_COMPONENT, ClusterView, NodeView, Owner, PodView

NOW = 1_800_000_000.0  # seconds since the epoch
V1, V2 = "1" * 64, "2" * 64
SIZE = 1000  # bytes of the default dataset
ROOM = 10**6  # free bytes on the default node


def make_dataset(name: str = "imagenet", *, status: Mapping[str, Any] | None = None, **meta: Any) -> Dataset:
    """Make a Dataset in namespace vision. Sections of ``spec`` are keyword arguments, such as cache= and warm=."""
    parts = ("cache", "warm", "refresh", "source", "access", "observe", "className", "tuning")
    spec = {part: meta.pop(part) for part in parts if part in meta}
    spec.setdefault("source", {"uri": "s3://bucket/"})
    metadata = {"namespace": "vision", "name": name, "uid": f"uid-{name}", "generation": 1} | meta
    return Dataset.model_validate({"metadata": metadata, "spec": spec, "status": status or {}})


def make_class(
    name: str = "tenants", *, default: bool = False, created: str = "2026-01-01T00:00:00Z", **spec: Any
) -> DatasetClass:
    """Make a DatasetClass."""
    annotations = {names.ANNOTATION_DEFAULT_CLASS: "true"} if default else {}
    metadata = {"name": name, "uid": f"uid-{name}", "annotations": annotations, "creationTimestamp": created}
    return DatasetClass.model_validate({"metadata": metadata, "spec": spec})


def listed(dataset: Dataset, version: str = V1, size: int = SIZE) -> Dataset:
    """Return the same Dataset with the result of a listing in its status."""
    status = dataset.status.model_copy(update={"version": version, "bytes": size, "files": 10})
    return dataset.model_copy(update={"status": status})


IMAGENET = listed(make_dataset())  # the default Dataset


def make_node(name: str, **fields: Any) -> NodeView:
    """Make a ready node with a sidecar."""
    return replace(NodeView(name=name, uid=f"uid-{name}", sidecar_ready=True, address=f"{name}:8081"), **fields)


def sidecar_pod(node: str = "a", namespace: str = "stoker", **fields: Any) -> PodView:
    """Make the ready sidecar pod of a node."""
    labels, owner = {COMPONENT_LABEL: SIDECAR_COMPONENT}, Owner("DaemonSet", "stoker-sidecar", "d")
    pod = PodView(namespace, f"s-{node}", node=node, ready=True, labels=labels, owner=owner)
    return replace(pod, **fields)


def make_cache(
    name: str,
    *rows: tuple[NodeDataset | None, NodeDatasetStatus | None],
    room: int = ROOM,
    mounts: tuple[Mapping[str, Any], ...] = (),
) -> NodeCache:
    """Make a NodeCache with these pairs of spec entries and status rows."""
    given = [entry.wire() for entry, _ in rows if entry]
    reports = [report.wire() for _, report in rows if report]
    status = {"availableBytes": room, "address": f"{name}:8081", "datasets": reports, "mounts": list(mounts)}
    return NodeCache.model_validate({"metadata": {"name": name}, "spec": {"datasets": given}, "status": status})


def given(dataset: Dataset, **fields: Any) -> NodeDataset:
    """Make an entry of a NodeCache's spec."""
    base: dict[str, Any] = {
        "namespace": dataset.metadata.namespace,
        "name": dataset.metadata.name,
        "uid": dataset.metadata.uid,
        "source": dataset.spec.source,
        "eager": True,
        "version": dataset.status.version,
    }
    return NodeDataset.model_validate(base | fields)


def report(dataset: Dataset, warm: int = SIZE, **fields: Any) -> NodeDatasetStatus:
    """Make a status row of a NodeCache with ``warm`` of SIZE bytes on disk."""
    base: dict[str, Any] = {
        "namespace": dataset.metadata.namespace,
        "name": dataset.metadata.name,
        "uid": dataset.metadata.uid,
        "version": dataset.status.version,
        "files": 10,
        "bytes": SIZE,
        "warm_bytes": warm,
        "phase": NodePhase.WARM if warm >= SIZE else NodePhase.WARMING,
    }
    return NodeDatasetStatus.model_validate(base | fields)


def make_holder(
    name: str,
    dataset: Dataset,
    warm: int = SIZE,
    *,
    room: int = ROOM,
    mounts: tuple[Mapping[str, Any], ...] = (),
    **fields: Any,
) -> NodeCache:
    """Make a NodeCache with only this Dataset in its spec. It reports ``warm`` of SIZE bytes, as ``report`` does."""
    return make_cache(name, (given(dataset), report(dataset, warm, **fields)), room=room, mounts=mounts)


def mount(dataset: Dataset, pod: str = "trainer", version: str = V1, phase: str = "Mounted") -> dict[str, Any]:
    """Make a row of a NodeCache's mounts, as on the wire."""
    home, name = dataset.metadata.namespace, dataset.metadata.name
    row = {"volumeId": f"volume-{pod}", "datasetNamespace": home, "dataset": name, "version": version}
    return row | {"podNamespace": home, "pod": pod, "podUid": f"uid-{pod}", "phase": phase}


class HasConditions(Protocol):
    """A status with conditions."""

    @property
    def conditions(self) -> tuple[Condition, ...]: ...


def condition(status: HasConditions, kind: ConditionType) -> Condition:
    """Return the condition of this type. Raises StopIteration if it is missing."""
    return next(one for one in status.conditions if one.type == kind)


def make_user(dataset: Dataset, node: str, pod: str = "trainer", **fields: Any) -> PodView:
    """Make the pod that uses the volume in a row of ``mount``."""
    user = PodView(dataset.metadata.namespace, pod, uid=f"uid-{pod}", node=node, volumes=(dataset.key,))
    return replace(user, **fields)


def make_view(*parts: Dataset | NodeCache | NodeView | PodView | TrainingJob) -> ClusterView:
    """Make a view of these objects. Nodes without a NodeCache get an empty one."""
    nodes = {one.name: one for one in parts if isinstance(one, NodeView)}
    caches = {name: make_cache(name) for name in nodes}
    caches |= {one.key: one for one in parts if isinstance(one, NodeCache)}
    return ClusterView(
        datasets={one.key: one for one in parts if isinstance(one, Dataset)},
        node_caches=caches,
        nodes=nodes,
        pods={one.key: one for one in parts if isinstance(one, PodView)},
        training_jobs={one.key: one for one in parts if isinstance(one, TrainingJob)},
    )


def decide_once(
    view: ClusterView,
    wanted: Wanted = MappingProxyType({}),
    now: float = NOW,
    versions: Versions = MappingProxyType({}),
    chosen: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Decision:
    """Return the first decision of a new operator. ``chosen``: replicas by UID from an earlier decision."""
    kept = IncrementalDecision()
    kept.chosen.update(chosen)
    return kept.decide(view, wanted, now, versions=versions)


def decided(
    *parts: Dataset | NodeCache | NodeView | PodView | TrainingJob,
    now: float = NOW,
    wanted: Wanted = MappingProxyType({}),
    chosen: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Decision:
    """Return the decision about these objects. ``wanted``: nodes by name of the Dataset."""
    by_key = {f"vision/{name}": nodes for name, nodes in wanted.items()}
    return decide_once(make_view(*parts), by_key, now, chosen=chosen)


WARM_REQUEST = {names.ANNOTATION_WARM_REQUESTED: "2026-11-21T10:00:00Z"}


def entry(node: str, *parts: Any, **wanted: frozenset[str]) -> NodeDataset:
    """Return the entry of vision/imagenet in the node's plan after this pass."""
    decision = decided(*parts, wanted=wanted)
    written = {write.node.name: write.spec for write in decision.nodes.writes}
    spec = written.get(node) or decision.view.node_caches[node].spec
    return next(one for one in spec.datasets if one.name == "imagenet")

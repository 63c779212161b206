"""Frozen snapshots for decisions: nodes, pods, and the whole cluster at one moment."""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.dataset_status import DatasetStatus
from stoker_api.datasets.endpoint import host_port
from stoker_api.jobs.pod_annotations import read_gang_size
from stoker_api.jobs.pod_hints import is_report_volume
from stoker_api.jobs.trainingjob import TrainingJob, TrainingJobStatus
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.node_caches.nodecache import NodeCache
from stoker_api.times import parse_time
from stoker_operator.core.classes.class_limits import ClassTerms
from stoker_operator.core.classes.tuning import ClusterTuning
from stoker_operator.core.origins.origin_ledger import NO_SHARES, OriginShares
from stoker_operator.core.origins.origin_policy import OriginPolicy
from stoker_operator.core.peers.peer_groups import PeerSettings
from stoker_operator.core.views.earlier_wait import waited_from
from stoker_operator.core.views.placement_rules import unweighed_rules
from stoker_operator.core.views.resources import Resources, parse_resources, pod_requests

# The chart's label that distinguishes the sidecar's pods from the operator's.
COMPONENT_LABEL = "app.kubernetes.io/component"
SIDECAR_COMPONENT = "sidecar"
_PEER_PORT_NAME, _PEER_PORT = "peers", 8082  # of the sidecar's container, as in the chart
# Kubelets create such pods in any namespace, so the node vouches for them, not the namespace.
_MIRROR_POD = "kubernetes.io/config.mirror"
_LABELS_OF_SIDECARS = (COMPONENT_LABEL, names.LABEL_NODE_ACCOUNT)
NOTHING = Resources()
_MOST_DIGITS = 18
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FINISHED = frozenset({"Succeeded", "Failed"})


# Kubernetes' node lifecycle controller sets these when a node falls silent. It removes them shortly after the node is
# ready. They repeat the Ready condition and do not describe the node's purpose.
LIFECYCLE_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """The fields of a node for placement and gating."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    ready_since: float = 0.0  # seconds since the epoch; 0.0 while not ready
    not_ready_since: float = 0.0  # seconds since the epoch; 0.0 while ready
    schedulable: bool = True
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    sidecar_ready: bool = False
    sidecar_silent_since: float = 0.0  # seconds since the epoch; 0.0 while ready or without a sidecar
    leaving: str = ""  # why the node counts as draining; "" if it does not
    address: str = ""  # host:port of this node's sidecar for other sidecars, from the sidecar's Pod; "" if unknown

    @property
    def takes_new(self) -> bool:
        """True if it may get pods and data that it does not have."""
        return self.schedulable and not self.leaving

    def matches(self, selector: Mapping[str, str]) -> bool:
        """Return True if the node has every label of ``selector``."""
        return all(self.labels.get(key) == value for key, value in selector.items())


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodView:
    """The fields of a pod for decisions.

    ``labels``, ``affinity`` and similar fields are kept only for pods that Stoker manages.
    """

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    phase: str = "Pending"
    ready: bool = False
    not_ready_since: float = 0.0  # seconds since the epoch, for sidecars only; 0.0 while ready
    requests: Resources = NOTHING
    gates: tuple[str, ...] = ()
    managed: bool = False
    datasets: str = ""  # the annotation as written; stoker_api.jobs.pod_annotations parses it
    scheduling: str = ""
    max_wait: str = ""
    created: float = 0.0  # seconds since the epoch
    # When Stoker's gate became the last one, for a pod with other gates. 0.0: other gates remain, or unknown.
    held_since: float | None = None
    waited_from: float = 0.0  # since when its job waited in a queue for its data; 0.0: it did not, or long ago
    gang: str = ""
    gang_size: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Mapping[str, Any] = field(default_factory=dict)  # corev1.Affinity, unparsed
    tolerations: tuple[Mapping[str, Any], ...] = ()
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    waiting: str = ""  # the annotation stoker.dev/waiting, unparsed
    released: str = ""  # the annotation stoker.dev/released, unparsed
    owner: Owner | None = None
    claims: tuple[str, ...] = ()  # names of its PersistentVolumeClaims
    volumes: tuple[str, ...] = ()  # datasets ("namespace/name") of its inline CSI volumes
    versions: Mapping[str, str] = field(default_factory=dict)  # versions of those, if their volumes name one
    # The resourceVersion, 0 if unknown. It orders updates. A pod with an equal view has not changed.
    version: int = field(default=0, compare=False)
    unweighed: tuple[str, ...] = ()  # scheduler rules that gating does not model: core/views/placement_rules.py
    unschedulable: str = ""  # the scheduler's message that no node fits
    unschedulable_since: float = 0.0  # seconds since the epoch
    evicted: bool = False  # by the Eviction API, as in a drain; it may still be terminating
    expected: bool = False  # of a queued job: the pod does not exist yet
    address: str = ""  # host:port of a sidecar's pod for other sidecars; "" for all other pods

    @property
    def key(self) -> str:
        """The key ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def gated(self) -> bool:
        """True while Stoker's scheduling gate holds it."""
        return names.GATE_WARM in self.gates and not self.deleting

    @property
    def other_gates(self) -> tuple[str, ...]:
        """The scheduling gates of other controllers."""
        return tuple(gate for gate in self.gates if gate != names.GATE_WARM)

    @property
    def finished(self) -> bool:
        """True if none of its containers will run again."""
        return self.phase in _FINISHED

    @property
    def uses_data(self) -> bool:
        """True if it may use a Dataset."""
        return bool(self.volumes or self.claims)

    @property
    def sidecar(self) -> bool:
        """True for a pod of a DaemonSet with the sidecar's label. Callers must check the namespace too.

        A copy of a sidecar's pod from `kubectl debug` has the label but no such owner.
        """
        is_of_daemon_set = self.owner is not None and self.owner.kind == "DaemonSet"
        return is_of_daemon_set and self.labels.get(COMPONENT_LABEL) == SIDECAR_COMPONENT


@dataclass(frozen=True, slots=True)
class InvalidDataset:
    """A Dataset that does not parse or that its class refuses, with the message.

    ``status``: its last known status. ``closed``: nodes do not mount their data of it.
    """

    metadata: ObjectMeta
    sentence: str
    status: DatasetStatus
    reason: Reason = Reason.INVALID_SPEC
    closed: bool = False


@dataclass(frozen=True, slots=True)
class InvalidTrainingJob:
    """A TrainingJob that does not parse, with the message. ``status``: its last known status."""

    metadata: ObjectMeta
    sentence: str
    status: TrainingJobStatus


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster at one moment.

    Datasets, pods, TrainingJobs and Jobs by ``namespace/name``, all other objects by name. Datasets have their class
    limits applied. ``terms`` has the other terms of their classes, if any.
    """

    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    terms: Mapping[str, ClassTerms] = field(default_factory=dict)
    # Datasets that do not parse or are refused. Nodes keep their data unchanged.
    invalid_datasets: Mapping[str, InvalidDataset] = field(default_factory=dict)
    node_caches: Mapping[str, NodeCache] = field(default_factory=dict)
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    pods: Mapping[str, PodView] = field(default_factory=dict)
    training_jobs: Mapping[str, TrainingJob] = field(default_factory=dict)
    # TrainingJobs that do not parse. Their children stay unchanged.
    invalid_training_jobs: Mapping[str, InvalidTrainingJob] = field(default_factory=dict)
    # Jobs of TrainingJobs, unparsed: metadata, spec and status.
    jobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tuning: ClusterTuning = field(default_factory=ClusterTuning)
    peer_settings: PeerSettings = field(default_factory=PeerSettings)
    origin_policy: OriginPolicy = field(default_factory=OriginPolicy)
    shares: OriginShares = NO_SHARES  # limits of nodes at object stores
    unready: AbstractSet[str] | None = None  # nodes that are not ready, if already known

    def not_ready(self) -> AbstractSet[str]:
        """Return the names of nodes that are not ready."""
        return {name for name, node in self.nodes.items() if not node.ready} if self.unready is None else self.unready

    def meta(self, dataset: str) -> ObjectMeta | None:
        """Return the metadata of a Dataset by its key, valid or not. Return None if it does not exist."""
        found = self.datasets.get(dataset) or self.invalid_datasets.get(dataset)
        return None if found is None else found.metadata


def parse_node(raw: Mapping[str, Any]) -> NodeView:
    """Parse a corev1.Node. The caller fills in ``sidecar_ready``, which depends on pods."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    condition: Mapping[str, Any] = next((c for c in status.get("conditions") or () if c["type"] == "Ready"), {})
    taints = tuple(Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ())
    ready, since = condition.get("status") == "True", parse_time(condition.get("lastTransitionTime"))
    return NodeView(
        name=meta["name"],
        uid=meta.get("uid", ""),
        labels=dict(meta.get("labels") or {}),
        ready=ready and not meta.get("deletionTimestamp"),
        ready_since=since if ready else 0.0,
        not_ready_since=0.0 if ready else since,
        schedulable=not spec.get("unschedulable", False),
        taints=taints,
        allocatable=parse_resources(status.get("allocatable") or {}),
    )


def _not_ready_since(condition: Mapping[str, Any]) -> float:
    return 0.0 if condition.get("status") == "True" else parse_time(condition.get("lastTransitionTime"))


def parse_pod(raw: Mapping[str, Any]) -> PodView:
    """Parse a corev1.Pod.

    Fields that only Stoker's own pods need are skipped for all other pods, so that 100,000 fit in memory.
    """
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = meta.get("labels") or {}
    mirrored = _MIRROR_POD in (meta.get("annotations") or {})
    claims, volumes, versions = _data_volumes(meta.get("namespace", ""), {} if mirrored else spec)
    ready: Mapping[str, Any] = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), {})
    owner = _owner(meta) if labels.get(COMPONENT_LABEL) == SIDECAR_COMPONENT else None
    base = PodView(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta.get("uid", ""),
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        ready=ready.get("status") == "True",
        not_ready_since=0.0 if owner is None else _not_ready_since(ready),
        requests=pod_requests(spec),
        deleting=bool(meta.get("deletionTimestamp")),
        created=parse_time(meta.get("creationTimestamp")),
        labels={name: labels[name] for name in _LABELS_OF_SIDECARS if name in labels},
        owner=owner,
        claims=claims,
        volumes=volumes,
        versions=versions,
        version=_number(meta.get("resourceVersion", "")),
        evicted=_evicted(status),
        address="" if owner is None else _sidecar_address(spec, status),
    )
    return _with_details(base, meta, spec, status) if _concerns_us(meta, spec) else base


def _sidecar_address(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return ``host:port`` of a sidecar's pod, with IPv6 in brackets. Return "" while the pod has no address."""
    ip = status.get("podIP") or ""
    ports = (port for one in spec.get("containers") or () for port in one.get("ports") or ())
    port = next((one["containerPort"] for one in ports if one.get("name") == _PEER_PORT_NAME), _PEER_PORT)
    return host_port(ip, port) if ip else ""


def _concerns_us(meta: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    gates = {gate["name"] for gate in spec.get("schedulingGates") or ()}
    return names.LABEL_MANAGED in (meta.get("labels") or {}) or names.GATE_WARM in gates


def _with_details(
    base: PodView, meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> PodView:
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    since = annotations.get(names.ANNOTATION_HELD_SINCE)
    refused = _refused_by_scheduler(status)
    size = annotations.get(names.ANNOTATION_GANG_SIZE, "")
    return replace(
        base,
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        managed=names.LABEL_MANAGED in labels,
        datasets=annotations.get(names.ANNOTATION_DATASETS, ""),
        scheduling=annotations.get(names.ANNOTATION_SCHEDULING, ""),
        max_wait=annotations.get(names.ANNOTATION_MAX_WAIT, ""),
        gang=labels.get(names.LABEL_GANG, ""),
        gang_size=read_gang_size(size),
        node_selector=dict(spec.get("nodeSelector") or {}),
        affinity=spec.get("affinity") or {},
        tolerations=tuple(spec.get("tolerations") or ()),
        labels=dict(labels),
        waiting=annotations.get(names.ANNOTATION_WAITING, ""),
        held_since=None if since is None else parse_time(since),
        waited_from=waited_from(annotations.get(names.ANNOTATION_WAITED, ""), base.created),
        unweighed=unweighed_rules(spec),
        unschedulable=(refused.get("message") or "no node takes it") if refused else "",
        unschedulable_since=parse_time(refused.get("lastTransitionTime")),
        released=annotations.get(names.ANNOTATION_RELEASED, ""),
        owner=_owner(meta),
    )


def _number(text: str) -> int:
    """Parse a number of at most 18 digits, as int64 allows. Return 0 for any other text, which may come from anyone."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _refused_by_scheduler(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for condition in status.get("conditions") or ():
        if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
            return condition if condition.get("reason") == "Unschedulable" else {}
    return {}


def _evicted(status: Mapping[str, Any]) -> bool:
    """Return True if the Eviction API evicted the pod. Preemption and memory pressure do not count."""
    found = (one for one in status.get("conditions") or () if one["type"] == "DisruptionTarget")
    return any(one["status"] == "True" and one.get("reason") == "EvictionByEvictionAPI" for one in found)


def _owner(meta: Mapping[str, Any]) -> Owner | None:
    for ref in meta.get("ownerReferences") or ():
        if ref.get("controller"):
            return Owner(ref["kind"], ref["name"], ref["uid"])
    return None


def _data_volumes(
    namespace: str, spec: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...], Mapping[str, str]]:
    claims, datasets, versions = [], [], dict[str, str]()
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            claims.append(claim["claimName"])
        csi = volume.get("csi") or {}
        if csi.get("driver") == names.CSI_DRIVER and not is_report_volume(volume):
            attributes = csi.get("volumeAttributes") or {}
            home = attributes.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or namespace
            datasets.append(f"{home}/{attributes.get(names.CSI_ATTRIBUTE_DATASET, '')}")
            if _DIGEST.fullmatch(version := attributes.get(names.CSI_ATTRIBUTE_VERSION, "")):
                versions[datasets[-1]] = version
    return tuple(claims), tuple(datasets), versions

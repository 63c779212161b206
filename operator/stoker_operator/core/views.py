"""Frozen snapshots of what decisions read: nodes, pods, and the whole cluster at one moment."""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.dataset_status import DatasetStatus
from stoker_api.inline_volume import is_report_volume
from stoker_api.meta import ObjectMeta
from stoker_api.names import Reason
from stoker_api.nodecache import NodeCache
from stoker_api.times import parse_time
from stoker_api.trainingjob import TrainingJob, TrainingJobStatus
from stoker_operator.core.class_limits import ClassTerms
from stoker_operator.core.earlier_wait import waited_from
from stoker_operator.core.nearness import ClusterNeighbours
from stoker_operator.core.origin_ledger import NO_SHARES, OriginShares
from stoker_operator.core.origin_policy import OriginPolicy
from stoker_operator.core.placement_rules import unweighed_rules
from stoker_operator.core.resources import Resources, parse_resources, pod_requests
from stoker_operator.core.tuning import ClusterTuning

# The well-known label of the chart that tells the sidecar's pods from the operator's.
COMPONENT_LABEL = "app.kubernetes.io/component"
SIDECAR_COMPONENT = "sidecar"
_LABELS_OF_SIDECARS = (COMPONENT_LABEL, names.LABEL_NODE_ACCOUNT)
NOTHING = Resources()
_MOST_DIGITS = 18
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FINISHED = frozenset({"Succeeded", "Failed"})


# Kubernetes' node lifecycle controller sets these when a node falls silent, and takes them away a moment after it is
# ready again. They say what the Ready condition says, and nothing of what the node is for.
LIFECYCLE_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """What placement and gating know of a node."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    ready_since: float = 0.0  # seconds since the epoch; 0.0 while it is not
    not_ready_since: float = 0.0  # seconds since the epoch; 0.0 while ready
    schedulable: bool = True
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    sidecar_ready: bool = False
    sidecar_silent_since: float = 0.0  # seconds since the epoch; 0.0 while it is ready, or where there is none
    leaving: str = ""  # why it is taken for a node that is about to go; empty: it is not

    @property
    def takes_new(self) -> bool:
        """True when it may be given pods and data that it does not have."""
        return self.schedulable and not self.leaving

    def matches(self, selector: Mapping[str, str]) -> bool:
        """Tell whether the node has every label of ``selector``."""
        return all(self.labels.get(key) == value for key, value in selector.items())


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodView:
    """What decisions know of a pod.

    ``labels``, ``affinity`` and the like are kept only for pods that Stoker manages.
    """

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    phase: str = "Pending"
    ready: bool = False
    not_ready_since: float = 0.0  # seconds since the epoch, of sidecars alone; 0.0 while ready
    requests: Resources = NOTHING
    gates: tuple[str, ...] = ()
    managed: bool = False
    datasets: str = ""  # the annotation as written; core/annotations.py parses it
    scheduling: str = ""
    max_wait: str = ""
    created: float = 0.0  # seconds since the epoch
    # When Stoker's gate became the last one, for a pod that had others; 0.0: they hold it still, or that is not known.
    held_since: float | None = None
    waited_from: float = 0.0  # since when its job waited in a queue for its data; 0.0: it did not, or long ago
    gang: str = ""
    gang_size: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Mapping[str, Any] = field(default_factory=dict)  # corev1.Affinity as it came
    tolerations: tuple[Mapping[str, Any], ...] = ()
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    waiting: str = ""  # the annotation stoker.dev/waiting as it stands
    released: str = ""  # the annotation stoker.dev/released as it stands
    owner: Owner | None = None
    claims: tuple[str, ...] = ()  # PersistentVolumeClaims that it names
    volumes: tuple[str, ...] = ()  # datasets ("namespace/name") of its inline CSI volumes
    versions: Mapping[str, str] = field(default_factory=dict)  # of those, where their volumes name one
    # The resourceVersion, 0 when unknown: it tells old from new, and a pod whose view is the same has not changed.
    version: int = field(default=0, compare=False)
    unweighed: tuple[str, ...] = ()  # rules of the scheduler that gating does not know: core/placement_rules.py
    unschedulable: str = ""  # the scheduler's word that no node takes it
    unschedulable_since: float = 0.0  # seconds since the epoch
    evicted: bool = False  # by the Eviction API, as a drain does; it may be ending still
    expected: bool = False  # of a job that a queue holds: there is no such pod yet

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
        """True when none of its containers will run again."""
        return self.phase in _FINISHED

    @property
    def uses_data(self) -> bool:
        """True when it may use a Dataset."""
        return bool(self.volumes or self.claims)

    @property
    def sidecar(self) -> bool:
        """True for a pod of a DaemonSet with the sidecar's label; whoever asks must check the namespace too.

        A copy of a sidecar's pod, as `kubectl debug` makes, has the label and no such owner.
        """
        is_of_daemon_set = self.owner is not None and self.owner.kind == "DaemonSet"
        return is_of_daemon_set and self.labels.get(COMPONENT_LABEL) == SIDECAR_COMPONENT


@dataclass(frozen=True, slots=True)
class InvalidDataset:
    """A Dataset that does not parse or that its class refuses, with the sentence.

    ``status`` is what it was last known to be. ``closed``: what nodes have of it is not mounted any more.
    """

    metadata: ObjectMeta
    sentence: str
    status: DatasetStatus
    reason: Reason = Reason.INVALID_SPEC
    closed: bool = False


@dataclass(frozen=True, slots=True)
class InvalidTrainingJob:
    """A TrainingJob that does not parse, with the sentence; ``status`` is what it was last known to be."""

    metadata: ObjectMeta
    sentence: str
    status: TrainingJobStatus


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything at one moment. Datasets, pods, TrainingJobs and Jobs by ``namespace/name``, the others by name.

    Datasets are as their classes let them be; ``terms`` is what else is to be known of those, where there is anything.
    """

    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    terms: Mapping[str, ClassTerms] = field(default_factory=dict)
    # Datasets that do not parse, or are refused: what nodes hold of them stays as it is.
    invalid_datasets: Mapping[str, InvalidDataset] = field(default_factory=dict)
    node_caches: Mapping[str, NodeCache] = field(default_factory=dict)
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    pods: Mapping[str, PodView] = field(default_factory=dict)
    training_jobs: Mapping[str, TrainingJob] = field(default_factory=dict)
    # TrainingJobs that do not parse: their children stay as they are.
    invalid_training_jobs: Mapping[str, InvalidTrainingJob] = field(default_factory=dict)
    # Jobs made for TrainingJobs, as they came: metadata, spec and status.
    jobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tuning: ClusterTuning = field(default_factory=ClusterTuning)
    neighbours: ClusterNeighbours = field(default_factory=ClusterNeighbours)
    origin_policy: OriginPolicy = field(default_factory=OriginPolicy)
    shares: OriginShares = NO_SHARES  # what nodes may ask object stores for
    unready: AbstractSet[str] | None = None  # the nodes that are not ready, where that was found out already

    def not_ready(self) -> AbstractSet[str]:
        """Return the names of the nodes that are not ready."""
        return {name for name, node in self.nodes.items() if not node.ready} if self.unready is None else self.unready

    def meta(self, dataset: str) -> ObjectMeta | None:
        """Return the metadata of a Dataset, by its key, whether it is taken or not; None where there is none."""
        found = self.datasets.get(dataset) or self.invalid_datasets.get(dataset)
        return None if found is None else found.metadata


def parse_node(raw: Mapping[str, Any]) -> NodeView:
    """Parse a view of a corev1.Node; ``sidecar_ready`` is filled in by whoever knows the pods."""
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
    """Parse a view of a corev1.Pod.

    What only Stoker's own pods need is left out of all others, to hold 100,000 of them.
    """
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = meta.get("labels") or {}
    claims, volumes, versions = _data_volumes(meta.get("namespace", ""), spec)
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
    )
    return _with_details(base, meta, spec, status) if _concerns_us(meta, spec) else base


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


def read_gang_size(text: str) -> int:
    """Read how many pods a gang has; 0 where the annotation does not say."""
    return _number(text)


def _number(text: str) -> int:
    """Read a number of at most 18 digits, as int64 has; 0 for anything else: it may be anyone's text."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _refused_by_scheduler(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for condition in status.get("conditions") or ():
        if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
            return condition if condition.get("reason") == "Unschedulable" else {}
    return {}


def _evicted(status: Mapping[str, Any]) -> bool:
    """Tell whether somebody evicted the pod: not the scheduler for another one, nor its kubelet for want of memory."""
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

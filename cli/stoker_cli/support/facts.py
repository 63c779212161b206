"""The facts about a cluster that support commands use: objects by read, and reads that the API server refused. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker_kube.resources import (
    CRDS,
    CSI_DRIVERS,
    CSI_NODES,
    DAEMON_SETS,
    DATASET_CLASSES,
    DATASETS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODE_CACHES,
    NODES,
    PODS,
    TRAINING_JOBS,
    TUNING_PROFILES,
    VALIDATING_WEBHOOKS,
    Kind,
)

Raw = Mapping[str, Any]
RELEASE = "app.kubernetes.io/name=stoker"
OPERATOR, SIDECAR = "operator", "sidecar"  # values of the label app.kubernetes.io/component
NODE_LEASES = "kube-node-lease"  # the kubelets' namespace of leases
HERE = "(release)"  # as a namespace: that of the release, which earlier reads find


@dataclass(frozen=True, slots=True)
class ClusterRead:
    """One list request. ``namespace``: empty for all. ``labels``, ``fields``: selectors."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""


DEPLOYMENT = ClusterRead(DEPLOYMENTS, labels=RELEASE)
DAEMON_SET = ClusterRead(DAEMON_SETS, labels=RELEASE)
RELEASE_PODS = ClusterRead(PODS, labels=RELEASE)
RELEASE_EVENTS = ClusterRead(EVENTS, HERE)
OPERATOR_LEASES = ClusterRead(LEASES, HERE)
KUBELET_LEASES = ClusterRead(LEASES, NODE_LEASES)
INSTALLED_CRDS = ClusterRead(CRDS, labels=RELEASE)
POD_WEBHOOK = ClusterRead(MUTATING_WEBHOOKS, labels=RELEASE)
PROFILE_WEBHOOK = ClusterRead(VALIDATING_WEBHOOKS, labels=RELEASE)
DRIVERS = ClusterRead(CSI_DRIVERS)
NODE_DRIVERS = ClusterRead(CSI_NODES)
ALL_NODES = ClusterRead(NODES)
CACHES = ClusterRead(NODE_CACHES)
ALL_DATASETS = ClusterRead(DATASETS)
ALL_JOBS = ClusterRead(TRAINING_JOBS)
CLASSES = ClusterRead(DATASET_CLASSES)
PROFILES = ClusterRead(TUNING_PROFILES)
# Only for bundles.
DATASET_EVENTS = ClusterRead(EVENTS, fields="involvedObject.kind=Dataset")
JOB_EVENTS = ClusterRead(EVENTS, fields="involvedObject.kind=TrainingJob")
# Reads that find the namespace of the release come first.
READS = (
    DEPLOYMENT,
    DAEMON_SET,
    RELEASE_PODS,
    RELEASE_EVENTS,
    OPERATOR_LEASES,
    KUBELET_LEASES,
    INSTALLED_CRDS,
    POD_WEBHOOK,
    PROFILE_WEBHOOK,
    DRIVERS,
    NODE_DRIVERS,
    ALL_NODES,
    CACHES,
    ALL_DATASETS,
    ALL_JOBS,
    CLASSES,
    PROFILES,
)


@dataclass(frozen=True)
class ClusterFacts:
    """What was read. ``unread``: why a read failed. ``now``: the API server's clock; 0 if unknown.

    ``probe``: the API server's answer to a test pod, which the webhook must refuse; None if none was sent.
    """

    objects: Mapping[ClusterRead, Sequence[Raw]] = field(default_factory=dict)
    unread: Mapping[ClusterRead, str] = field(default_factory=dict)
    now: float = 0.0
    server_version: str = ""
    cli_version: str = ""
    probe: str | None = None

    def items(self, read: ClusterRead) -> Sequence[Raw]:
        """Return the objects of a read, or nothing."""
        return self.objects.get(read, ())

    def named(self, read: ClusterRead, name: str) -> Raw | None:
        """Return the object with this name, or None."""
        return next((item for item in self.items(read) if name_of(item) == name), None)

    def pods(self, component: str) -> list[Raw]:
        """Return the pods of a component of the release."""
        return [pod for pod in self.items(RELEASE_PODS) if labels_of(pod).get(_COMPONENT) == component]

    @property
    def namespace(self) -> str:
        """The namespace of the release. Empty: unknown."""
        for read in (DEPLOYMENT, DAEMON_SET, RELEASE_PODS):
            for item in self.items(read):
                return str(item["metadata"].get("namespace") or "")
        return ""

    @property
    def release_version(self) -> str:
        """The version of the installed release, from the operator's labels. Empty: unknown."""
        return next((labels_of(item).get(_VERSION, "") for item in self.items(DEPLOYMENT)), "")


_COMPONENT, _VERSION = "app.kubernetes.io/component", "app.kubernetes.io/version"


def name_of(item: Raw) -> str:
    """Return ``metadata.name``."""
    return str(item["metadata"].get("name") or "")


def key_of(item: Raw) -> str:
    """Return ``namespace/name``, or the name of a cluster-scoped object."""
    namespace = item["metadata"].get("namespace")
    return f"{namespace}/{name_of(item)}" if namespace else name_of(item)


def labels_of(item: Raw) -> Mapping[str, str]:
    """Return ``metadata.labels``."""
    return item["metadata"].get("labels") or {}


def condition_of(item: Raw, kind: str) -> Raw:
    """Return a condition of a status, or {}."""
    found = (item.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == kind), {})


def right_for(read: ClusterRead) -> str:
    """Return the right that a read needs, in words: ``list nodes``."""
    group = f".{read.kind.group}" if read.kind.group else ""
    where = f" in the namespace {read.namespace}" if read.namespace not in ("", HERE) else ""
    return f"list {read.kind.plural}{group}{where}"

"""The kinds that Stoker uses, and their URL paths."""

from dataclasses import dataclass
from urllib.parse import quote

from stoker_api import names
from stoker_api.jobs import pod_figures


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object. ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The apiVersion: ``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection, an object or a subresource.

        An empty namespace means all namespaces.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name) if part]
        return "/" + "/".join(quote(part, safe=":") for part in parts) + (f"/{subresource}" if subresource else "")


NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
PODS = Kind("", "v1", "pods", "Pod", namespaced=True)
SECRETS = Kind("", "v1", "secrets", "Secret", namespaced=True)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", namespaced=True)
SERVICES = Kind("", "v1", "services", "Service", namespaced=True)
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
EVENTS = Kind("", "v1", "events", "Event", namespaced=True)
PERSISTENT_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
JOBS = Kind("batch", "v1", "jobs", "Job", namespaced=True)
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment", namespaced=True)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CSI_DRIVERS = Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_NODES = Kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
API_SERVICES = Kind("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
CRDS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
ADMISSION_CHECKS = Kind("kueue.x-k8s.io", "v1beta1", "admissionchecks", "AdmissionCheck", namespaced=False)
WORKLOADS = Kind("kueue.x-k8s.io", "v1beta1", "workloads", "Workload", namespaced=True)
DATASETS = Kind(names.GROUP, names.VERSION, names.DATASETS_PLURAL, "Dataset", namespaced=True)
TRAINING_JOBS = Kind(names.GROUP, names.VERSION, names.TRAINING_JOBS_PLURAL, "TrainingJob", namespaced=True)
DATASET_CLASSES = Kind(names.GROUP, names.VERSION, names.DATASET_CLASSES_PLURAL, "DatasetClass", namespaced=False)
NODE_CACHES = Kind(names.GROUP, names.VERSION, names.NODE_CACHES_PLURAL, "NodeCache", namespaced=False)
POD_FIGURES = Kind(
    pod_figures.GROUP, pod_figures.VERSION, pod_figures.PLURAL, pod_figures.PodFigures.KIND, namespaced=True
)
TUNING_PROFILES = Kind(names.GROUP, names.VERSION, names.TUNING_PROFILES_PLURAL, "TuningProfile", namespaced=False)

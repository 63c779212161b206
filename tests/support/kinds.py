"""Kinds that only tests use."""

from stoker_kube.resources import Kind

NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", namespaced=True)
RESOURCE_QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
_ADMISSION = "admissionregistration.k8s.io"
POLICIES = Kind(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
POLICY_BINDINGS = Kind(
    _ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)

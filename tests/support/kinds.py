"""Kinds that only tests touch."""

from stoker_kube.resources import Kind

NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", namespaced=True)

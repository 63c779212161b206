"""Sentences about rights that the user lacks."""

from stoker_cli.access.pod_figures import ASK_FOR_NODES

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

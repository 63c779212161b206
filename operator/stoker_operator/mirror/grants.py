"""Roles, RoleBindings and ServiceAccounts as the mirror keeps them."""

from stoker_kube.api import Object

_KEPT = ("rules", "roleRef", "subjects")
_METADATA = ("name", "namespace", "uid", "resourceVersion")


def trim_grant(raw: Object) -> Object:
    """Return such an object without what no decision reads. Raises KeyError for what is none."""
    meta = raw["metadata"]
    kept = {name: meta[name] for name in _METADATA}
    return {"metadata": kept} | {name: raw[name] for name in _KEPT if name in raw}

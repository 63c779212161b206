"""Roles that let the sidecars read exactly the Secrets and ServiceAccounts that Datasets of a namespace name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stoker_api import names
from stoker_api.dataset import Dataset


@dataclass(frozen=True, slots=True)
class SidecarIdentity:
    """The sidecars' ServiceAccount."""

    namespace: str
    name: str


def rules_by_namespace(datasets: Iterable[Dataset]) -> Mapping[str, tuple[dict[str, Any], ...]]:
    """Make the RBAC rules of each namespace; a namespace whose Datasets name no credentials is left out."""
    secrets: dict[str, set[str]] = {}
    accounts: dict[str, set[str]] = {}
    for dataset in datasets:
        credentials, namespace = dataset.spec.source.credentials, dataset.metadata.namespace
        if credentials and credentials.secret_ref:
            secrets.setdefault(namespace, set()).add(credentials.secret_ref.name)
        if credentials and credentials.service_account:
            accounts.setdefault(namespace, set()).add(credentials.service_account)
    return {
        namespace: (*_secret_rules(secrets.get(namespace)), *_account_rules(accounts.get(namespace)))
        for namespace in sorted(secrets.keys() | accounts.keys())
    }


def _secret_rules(found: set[str] | None) -> tuple[dict[str, Any], ...]:
    return (_rule("secrets", "get", found),) if found else ()


def _account_rules(found: set[str] | None) -> tuple[dict[str, Any], ...]:
    if not found:
        return ()
    return _rule("serviceaccounts", "get", found), _rule("serviceaccounts/token", "create", found)


def _rule(resource: str, verb: str, found: set[str]) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [resource], "verbs": [verb], "resourceNames": sorted(found)}


def role(namespace: str, rules: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Return the Role of one namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": _metadata(namespace),
        "rules": list(rules),
    }


def role_binding(namespace: str, sidecar: SidecarIdentity) -> dict[str, Any]:
    """Bind it to the sidecars."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": names.CREDENTIALS_ROLE},
        "subjects": [{"kind": "ServiceAccount", "namespace": sidecar.namespace, "name": sidecar.name}],
    }


def _metadata(namespace: str) -> dict[str, Any]:
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    return {"name": names.CREDENTIALS_ROLE, "namespace": namespace, "labels": labels}

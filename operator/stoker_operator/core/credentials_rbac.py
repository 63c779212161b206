"""RBAC by which each node reads the Secrets and ServiceAccounts of the Datasets that it has, and no others.

A Role for each Secret or ServiceAccount that Datasets of a namespace name, and RoleBindings of it to the accounts of
nodes. Nodes are spread over the bindings by a hash of their name, so that a change rewrites a small part of a long list
(ADR 36).
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

from stoker_api import names
from stoker_api.dataset_source import Credentials
from stoker_api.nodecache import NodeCacheSpec
from stoker_operator.core.plan import DatasetPlan
from stoker_operator.core.views import ClusterView, NodeView

SHARDS = 64  # bindings of one Role: with 5,000 nodes some 80 in each, 10 kB
_DIGITS = 16  # of the hash in a name: nobody but a namespace's own people could make two of them meet
_RBAC = "rbac.authorization.k8s.io"
SECRET, SERVICE_ACCOUNT = "Secret", "ServiceAccount"

Body = dict[str, Any]


@dataclass(frozen=True)
class NamedCredentials:
    """A Secret, or a ServiceAccount, that Datasets of its namespace name."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @cached_property
    def role(self) -> str:
        """The name of the Role that grants it."""
        digest = hashlib.sha256(f"{self.kind}/{self.name}".encode()).hexdigest()
        return f"{names.CREDENTIALS_PREFIX}{digest[:_DIGITS]}"

    def binding(self, node: str) -> str:
        """Return the name of the RoleBinding that has the node."""
        return f"{self.role}-{_shard(node):02x}"


@lru_cache(maxsize=20_000)
def _shard(node: str) -> int:
    return hashlib.sha256(node.encode()).digest()[0] % SHARDS


def role_of(binding: str) -> str:
    """Return the name of the Role whose binding, or which itself, has this name."""
    return binding[: len(names.CREDENTIALS_PREFIX) + _DIGITS]


def is_grant(name: str) -> bool:
    """Tell whether a Role or RoleBinding of this name is one of the operator's, of an earlier version's too."""
    return name == names.CREDENTIALS_ROLE or name.startswith(names.CREDENTIALS_PREFIX)


def named_by(namespace: str, credentials: Credentials | None) -> Iterator[NamedCredentials]:
    """Yield what a Dataset's credentials name."""
    if credentials and credentials.secret_ref:
        yield NamedCredentials(namespace, SECRET, credentials.secret_ref.name)
    if credentials and credentials.service_account:
        yield NamedCredentials(namespace, SERVICE_ACCOUNT, credentials.service_account)


class NamedByNodes:
    """What the Datasets of each node name, worked out again only for nodes whose NodeCache changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[NodeCacheSpec, frozenset[NamedCredentials]]] = {}

    def of(self, view: ClusterView) -> Iterator[tuple[str, frozenset[NamedCredentials]]]:
        """Yield the nodes with what they name."""
        there = view.nodes.keys() & view.node_caches.keys()
        self._known = {node: self._of_node(node, view.node_caches[node].spec) for node in there}
        return ((node, named) for node, (_, named) in self._known.items())

    def _of_node(self, node: str, spec: NodeCacheSpec) -> tuple[NodeCacheSpec, frozenset[NamedCredentials]]:
        known = self._known.get(node)
        if known is not None and known[0] is spec:
            return known
        each = (named_by(entry.namespace, entry.source.credentials) for entry in spec.datasets)
        return spec, frozenset(chain.from_iterable(each))


def readers(
    view: ClusterView, plans: Iterable[DatasetPlan], named_by_nodes: NamedByNodes
) -> Mapping[NamedCredentials, frozenset[str]]:
    """Return the nodes that may read what: those that have a Dataset which names it, and those that are about to.

    What a NodeCache says counts until it is taken out of it, for a Dataset that no longer parses as well.
    """
    found: dict[NamedCredentials, set[str]] = {}
    for node, all_named in named_by_nodes.of(view):
        for named in all_named:
            found.setdefault(named, set()).add(node)
    for plan in plans:
        for named in named_by(plan.dataset.metadata.namespace, plan.dataset.spec.source.credentials):
            if nodes := plan.nodes():
                found.setdefault(named, set()).update(nodes)
    return {named: frozenset(nodes) for named, nodes in found.items()}


def role(named: NamedCredentials) -> Body:
    """Return the Role that grants one Secret, or one ServiceAccount and its tokens."""
    if named.kind == SECRET:
        rules = [_rule("secrets", "get", named.name)]
    else:
        rules = [_rule("serviceaccounts", "get", named.name), _rule("serviceaccounts/token", "create", named.name)]
    return _object("Role", named.namespace, named.role) | {"rules": rules}


def role_bindings(named: NamedCredentials, nodes: Iterable[str], accounts_namespace: str) -> list[Body]:
    """Bind it to the accounts of the nodes, which live in ``accounts_namespace``."""
    shards: dict[str, list[str]] = {}
    for node in sorted(nodes):
        shards.setdefault(named.binding(node), []).append(node)
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": named.role}
    return [
        _object("RoleBinding", named.namespace, name)
        | {"roleRef": reference, "subjects": _subjects(members, accounts_namespace)}
        for name, members in sorted(shards.items())
    ]


def node_account(node: NodeView, accounts_namespace: str) -> Body:
    """Return the ServiceAccount of a node. It is named like the node, and goes with it."""
    body = _object("ServiceAccount", accounts_namespace, node.name)
    body |= {"apiVersion": "v1", "automountServiceAccountToken": False}
    if node.uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
        body["metadata"]["ownerReferences"] = [owner]
    return body


def _subjects(nodes: Sequence[str], namespace: str) -> list[dict[str, str]]:
    return [{"kind": "ServiceAccount", "name": node, "namespace": namespace} for node in nodes]


def _rule(resource: str, verb: str, name: str) -> Body:
    return {"apiGroups": [""], "resources": [resource], "verbs": [verb], "resourceNames": [name]}


def _object(kind: str, namespace: str, name: str) -> Body:
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata}

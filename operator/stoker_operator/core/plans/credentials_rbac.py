"""RBAC with which each node reads the Secrets and ServiceAccounts of its own Datasets only.

Each Secret or ServiceAccount that Datasets of a namespace name gets a Role. RoleBindings grant it to the accounts of
nodes. A hash of the node's name selects the binding, so a change rewrites a small part of a long list (ADR 8).
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, starmap
from typing import Any, Final

from stoker_api import names
from stoker_api.datasets.dataset_source import Credentials
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.changed_keys import changed_keys, swap
from stoker_operator.core.plans.plan import DatasetPlan
from stoker_operator.core.views.cluster import ClusterView, NodeView

SHARDS = 64  # bindings of one Role: with 5,000 nodes about 80 in each, 10 kB
_DIGITS = 16  # hash digits in a name: only users of the same namespace could cause a collision
_RBAC = "rbac.authorization.k8s.io"
SECRET, SERVICE_ACCOUNT = "Secret", "ServiceAccount"

Body = dict[str, Any]


@dataclass(frozen=True)
class NamedCredentials:
    """A Secret or ServiceAccount that Datasets of its namespace name."""

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
        """Return the name of the RoleBinding that contains the node."""
        return f"{self.role}-{_shard(node):02x}"


@lru_cache(maxsize=20_000)
def _shard(node: str) -> int:
    return hashlib.sha256(node.encode()).digest()[0] % SHARDS


def role_of(binding: str) -> str:
    """Return the name of the Role for the name of a Role or of one of its bindings."""
    return binding[: len(names.CREDENTIALS_PREFIX) + _DIGITS]


def is_grant(name: str) -> bool:
    """Return True if a Role or RoleBinding of this name belongs to the operator, of any version."""
    return name == names.CREDENTIALS_ROLE or name.startswith(names.CREDENTIALS_PREFIX)


def named_by(namespace: str, credentials: Credentials | None) -> Iterator[NamedCredentials]:
    """Yield the objects that a Dataset's credentials name."""
    if credentials:
        yield from _named(namespace, *_names_in(credentials))


def _names_in(credentials: Credentials) -> tuple[str | None, str | None]:
    """Return the names of the Secret and the ServiceAccount in credentials."""
    secret = credentials.secret_ref
    return secret.name if secret else None, credentials.service_account


def _named(namespace: str, secret: str | None, account: str | None) -> Iterator[NamedCredentials]:
    if secret:
        yield NamedCredentials(namespace, SECRET, secret)
    if account:
        yield NamedCredentials(namespace, SERVICE_ACCOUNT, account)


class KeptReaders:
    """The nodes that may read each credential: nodes that have a Dataset which names it, and nodes that will.

    An entry in a NodeCache counts until it is removed, even if its Dataset no longer parses. The state persists across
    passes. A pass checks only changes.
    """

    def __init__(self) -> None:
        self._node_caches: Mapping[str, NodeCache] = {}
        self._known_nodes: Mapping[str, NodeView] = {}
        self._by_node: Final[dict[str, frozenset[NamedCredentials]]] = {}
        self._by_plan: Final[dict[str, tuple[frozenset[NamedCredentials], tuple[str, ...]]]] = {}
        self._nodes: Final[dict[NamedCredentials, set[str]]] = {}  # nodes that have it
        self._coming: Final[dict[NamedCredentials, dict[str, tuple[str, ...]]]] = {}  # coming nodes, by Dataset

    def update(
        self, view: ClusterView, plans: Mapping[str, DatasetPlan], datasets: Iterable[str]
    ) -> set[NamedCredentials]:
        """Update the current and planned Datasets of nodes. Return the credentials with changed readers.

        ``datasets``: keys of Datasets whose plans may have changed.
        """
        changed = set[NamedCredentials]()
        nodes = {*changed_keys(self._node_caches, view.node_caches), *changed_keys(self._known_nodes, view.nodes)}
        for node in nodes:
            cache = view.node_caches.get(node) if node in view.nodes else None
            changed.update(self._note_node(node, cache))
        for key in datasets:
            changed.update(self._note_plan(key, plans.get(key)))
        self._node_caches, self._known_nodes = view.node_caches, view.nodes
        return changed

    def nodes(self, named: NamedCredentials) -> frozenset[str]:
        """Return the nodes that may read it."""
        return frozenset(self._nodes.get(named, set()).union(*self._coming.get(named, {}).values()))

    def _note_node(self, node: str, cache: NodeCache | None) -> Collection[NamedCredentials]:
        entries = cache.spec.datasets if cache is not None else ()
        # Most Datasets of a namespace name the same credentials.
        homes = {
            (one.namespace, *_names_in(one.source.credentials)) for one in entries if one.source.credentials is not None
        }
        named = frozenset(chain.from_iterable(starmap(_named, homes)))
        before = self._by_node.pop(node, frozenset())
        if named:
            self._by_node[node] = named
        swap(self._nodes, before, named, node)
        return before ^ named

    def _note_plan(self, key: str, plan: DatasetPlan | None) -> Collection[NamedCredentials]:
        named, nodes = frozenset[NamedCredentials](), tuple[str, ...]()
        if plan is not None:
            named = frozenset(named_by(plan.dataset.metadata.namespace, plan.dataset.spec.source.credentials))
            nodes = plan.readers() if named else ()
        before = self._by_plan.pop(key, (frozenset(), ()))
        if named:
            self._by_plan[key] = (named, nodes)
        if before == (named, nodes):
            return ()
        for one in before[0]:
            self._coming[one].pop(key, None)
            if not self._coming[one]:
                del self._coming[one]
        for one in named:
            self._coming.setdefault(one, {})[key] = nodes
        return before[0] | named


def role(named: NamedCredentials) -> Body:
    """Return the Role that grants one Secret, or one ServiceAccount and its tokens."""
    if named.kind == SECRET:
        rules = [_rule("secrets", "get", named.name)]
    else:
        rules = [_rule("serviceaccounts", "get", named.name), _rule("serviceaccounts/token", "create", named.name)]
    return _object("Role", named.namespace, named.role) | {"rules": rules}


def role_bindings(named: NamedCredentials, nodes: Iterable[str], accounts_namespace: str) -> list[Body]:
    """Return the bindings to the nodes' accounts in ``accounts_namespace``. There may be thousands of nodes."""
    shards: dict[str, list[str]] = {}
    for node in sorted(nodes):
        shards.setdefault(named.binding(node), []).append(node)
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": named.role}
    bodies = []
    for name, members in sorted(shards.items()):
        told = {"roleRef": reference, "subjects": _subjects(members, accounts_namespace)}
        bodies.append(_object("RoleBinding", named.namespace, name) | told)
    return bodies


def node_account(node: NodeView, accounts_namespace: str) -> Body:
    """Return the ServiceAccount of a node. It has the node's name and is deleted with the node."""
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

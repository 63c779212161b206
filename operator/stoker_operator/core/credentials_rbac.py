"""RBAC by which each node reads the Secrets and ServiceAccounts of the Datasets that it has, and no others.

A Role for each Secret or ServiceAccount that Datasets of a namespace name, and RoleBindings of it to the accounts of
nodes. Nodes are spread over the bindings by a hash of their name, so that a change rewrites a small part of a long list
(ADR 36).
"""

import hashlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, starmap
from typing import Any, Final

from stoker_api import names
from stoker_api.dataset_source import Credentials
from stoker_api.nodecache import NodeCache
from stoker_operator.core.changed_keys import changed_keys, swap
from stoker_operator.core.plan import DatasetPlan
from stoker_operator.core.steps import Steps
from stoker_operator.core.views import ClusterView, NodeView

SHARDS = 64  # bindings of one Role: with 5,000 nodes some 80 in each, 10 kB
_DIGITS = 16  # of the hash in a name: nobody but a namespace's own people could make two of them meet
_AT_ONCE = 200  # nodes of one step, of 3 us each
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
    if credentials:
        yield from _named(namespace, *_names_in(credentials))


def _names_in(credentials: Credentials) -> tuple[str | None, str | None]:
    """Return the Secret and the ServiceAccount that credentials name."""
    secret = credentials.secret_ref
    return secret.name if secret else None, credentials.service_account


def _named(namespace: str, secret: str | None, account: str | None) -> Iterator[NamedCredentials]:
    if secret:
        yield NamedCredentials(namespace, SECRET, secret)
    if account:
        yield NamedCredentials(namespace, SERVICE_ACCOUNT, account)


class KeptReaders:
    """Which nodes may read what: those that have a Dataset which names it, and those that are about to.

    What a NodeCache says counts until it is taken out of it, for a Dataset that no longer parses as well. Kept from
    pass to pass: only what changed is looked at again.
    """

    def __init__(self) -> None:
        self._node_caches: Mapping[str, NodeCache] = {}
        self._known_nodes: Mapping[str, NodeView] = {}
        self._by_node: Final[dict[str, frozenset[NamedCredentials]]] = {}
        self._by_plan: Final[dict[str, tuple[frozenset[NamedCredentials], tuple[str, ...]]]] = {}
        self._nodes: Final[dict[NamedCredentials, set[str]]] = {}  # that have it
        self._coming: Final[dict[NamedCredentials, dict[str, tuple[str, ...]]]] = {}  # by Dataset, that are to have it

    def update(
        self, view: ClusterView, plans: Mapping[str, DatasetPlan], datasets: Iterable[str]
    ) -> Generator[None, None, set[NamedCredentials]]:
        """Take over what nodes have and are to have, in steps; gives what other nodes may read now.

        ``datasets``: keys of those whose plans may be others than the last time.
        """
        changed = set[NamedCredentials]()
        nodes = {*changed_keys(self._node_caches, view.node_caches), *changed_keys(self._known_nodes, view.nodes)}
        for node in nodes:
            cache = view.node_caches.get(node) if node in view.nodes else None
            changed.update(self._note_node(node, cache))
            yield
        for key in datasets:
            changed.update(self._note_plan(key, plans.get(key)))
            yield
        self._node_caches, self._known_nodes = view.node_caches, view.nodes
        return changed

    def nodes(self, named: NamedCredentials) -> frozenset[str]:
        """Return the nodes that may read it."""
        return frozenset(self._nodes.get(named, set()).union(*self._coming.get(named, {}).values()))

    def _note_node(self, node: str, cache: NodeCache | None) -> Collection[NamedCredentials]:
        entries = cache.spec.datasets if cache is not None else ()
        # Of many Datasets few name anything else than the others of their namespace.
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
            nodes = plan.nodes() if named else ()
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


def role_bindings(named: NamedCredentials, nodes: Iterable[str], accounts_namespace: str) -> Steps[list[Body]]:
    """Bind it to the accounts of the nodes, which live in ``accounts_namespace``; there may be thousands."""
    shards: dict[str, list[str]] = {}
    for number, node in enumerate(sorted(nodes), 1):
        shards.setdefault(named.binding(node), []).append(node)
        if number % _AT_ONCE == 0:
            yield
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": named.role}
    bodies = []
    for name, members in sorted(shards.items()):
        told = {"roleRef": reference, "subjects": _subjects(members, accounts_namespace)}
        bodies.append(_object("RoleBinding", named.namespace, name) | told)
        yield
    return bodies


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

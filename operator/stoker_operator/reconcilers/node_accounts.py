"""Creates the ServiceAccount of each node with a sidecar; Kubernetes deletes it together with the Node."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from stoker_api import names
from stoker_operator.core.plans.credentials_rbac import node_account
from stoker_operator.core.views.cluster import ClusterView, NodeView
from stoker_operator.mirror.informers import trim_grant
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.writes.writer import Writer


class NodeAccounts:
    """The accounts of all nodes. Stoker runs in ``own_namespace``."""

    def __init__(self, writer: Writer, state: ClusterState, own_namespace: str) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._namespace: Final = names.node_accounts_namespace(own_namespace)
        self._missing: list[NodeView] = []
        self._basis: tuple[Mapping[str, NodeView], int] | None = None  # the inputs of ``_missing``

    def actions(self, view: ClusterView) -> Iterator[KeyedAction]:
        """Yield the actions that create missing accounts."""
        changes = self._state.node_accounts.changes
        if self._basis is None or self._basis[0] is not view.nodes or self._basis[1] != changes:
            self._missing = [node for name, node in view.nodes.items() if node.sidecar_ready and not self._has(name)]
            self._basis = (view.nodes, changes)
        for node in self._missing:
            yield KeyedAction(making_key(node.name), "account", node.name, partial(self._make, node))

    def _has(self, node: str) -> bool:
        return self._state.node_accounts.get(account_key(self._namespace, node)) is not None

    async def _make(self, node: NodeView) -> None:
        made = await self._writer.create_account(node_account(node, self._namespace), self._namespace)
        self._state.node_accounts.put(account_key(self._namespace, node.name), trim_grant(made))


def account_key(namespace: str, node: str) -> str:
    """Return the key of a node's account in the mirror."""
    return f"{namespace}/{node}"


def making_key(node: str) -> str:
    """Return the key of the action that creates a node's account."""
    return f"ServiceAccount of node {node}"

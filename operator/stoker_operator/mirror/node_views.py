"""The nodes with what their sidecars' pods say of them; a node that is as it was stays the same object."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from stoker_operator.core.views import NodeView, PodView
from stoker_operator.mirror.leaving_nodes import LeavingNodes

_AT_ONCE = 500  # nodes of one step
Heard = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class _ShownNode:
    node: NodeView
    shown: NodeView


class NodeViews:
    """The views of all nodes; the sidecars run in ``own_namespace``."""

    def __init__(self, own_namespace: str, heard: Heard, leaving: LeavingNodes) -> None:
        """Begin with nothing; ``heard(since)`` gives since when a silence counts that began then."""
        self._heard: Final = heard
        self._leaving: Final = leaving
        self._own_namespace: Final = own_namespace
        self._sidecars: Final[dict[str, PodView]] = {}
        self._known: dict[str, _ShownNode] = {}
        self._shown: Mapping[str, NodeView] = MappingProxyType({})
        self._basis: tuple[Mapping[str, NodeView], float, int] | None = None  # what ``_shown`` was made of

    def note_pod(self, old: PodView | None, new: PodView | None) -> None:
        """Take over a change of a pod."""
        before, after = self._is_ours(old), self._is_ours(new)
        if old is not None and before:
            self._sidecars.pop(old.key, None)
        if new is not None and after:
            self._sidecars[new.key] = new
        if before or after:
            self._basis = None

    def prepare(self, nodes: Mapping[str, NodeView], heard_since: float) -> Iterator[None]:
        """Do most of what ``current`` does, in steps."""
        if self._is_current(nodes, heard_since):
            return
        ready, silent = self._by_node()
        for count, (name, node) in enumerate(nodes.items()):
            self._known[name] = self._show(node, name in ready, silent.get(name, 0.0))
            if count % _AT_ONCE == _AT_ONCE - 1:
                yield

    def current(self, nodes: Mapping[str, NodeView], heard_since: float) -> Mapping[str, NodeView]:
        """Return the views of these nodes; ``heard_since``: what silences are counted by."""
        if not self._is_current(nodes, heard_since):
            ready, silent = self._by_node()
            self._known = {name: self._show(node, name in ready, silent.get(name, 0.0)) for name, node in nodes.items()}
            self._shown = MappingProxyType({name: one.shown for name, one in self._known.items()})
            self._basis = (nodes, heard_since, self._leaving.changes)
        return self._shown

    def _is_current(self, nodes: Mapping[str, NodeView], heard_since: float) -> bool:
        basis = self._basis
        return basis is not None and basis[0] is nodes and basis[1:] == (heard_since, self._leaving.changes)

    def _by_node(self) -> tuple[set[str], dict[str, float]]:
        """Return the nodes with a sidecar that is ready, and since when those of others are not."""
        ready = {pod.node for pod in self._sidecars.values() if pod.ready and not pod.deleting}
        silent: dict[str, float] = {}
        for pod in self._sidecars.values():
            if pod.node not in ready:
                silent[pod.node] = max(silent.get(pod.node, 0.0), pod.not_ready_since)
        return ready, silent

    def _show(self, node: NodeView, ready: bool, silent: float) -> _ShownNode:
        known = self._known.get(node.name)
        silent, not_ready, leaving = self._heard(silent), self._heard(node.not_ready_since), self._leaving.reason(node)
        if known is not None and known.node is node:
            shown = known.shown
            before = (shown.sidecar_ready, shown.sidecar_silent_since, shown.not_ready_since, shown.leaving)
            if before == (ready, silent, not_ready, leaving):
                return known
        shown = replace(
            node, sidecar_ready=ready, sidecar_silent_since=silent, not_ready_since=not_ready, leaving=leaving
        )
        return _ShownNode(node, shown)

    def _is_ours(self, pod: PodView | None) -> bool:
        return pod is not None and pod.sidecar and pod.namespace == self._own_namespace

"""Combines nodes with the state of their sidecar pods. An unchanged node keeps its view object."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from stoker_operator.core.changed_keys import ChangeLog, Snapshot, changed_keys
from stoker_operator.core.views.cluster import NodeView, PodView
from stoker_operator.mirror.leaving_nodes import LeavingNodes

Heard = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class _ShownNode:
    node: NodeView
    shown: NodeView


class NodeViews:
    """The views of all nodes; the sidecars run in ``own_namespace``."""

    def __init__(self, own_namespace: str, heard: Heard, leaving: LeavingNodes) -> None:
        """Start empty; ``heard(since)`` returns the time from which a silence that began at ``since`` counts."""
        self._heard: Final = heard
        self._leaving: Final = leaving
        self._own_namespace: Final = own_namespace
        self._sidecars: Final[dict[str, dict[str, PodView]]] = {}  # by node and key
        self._touched: Final[set[str]] = set()  # nodes whose sidecar pods changed since the last view
        self._known: Final[dict[str, _ShownNode]] = {}
        self._rows: Final[dict[str, NodeView]] = {}
        self._log: Final = ChangeLog()
        self._shown = Snapshot(self._rows, self._log)
        self._shown_at = 0  # the value of the log's change counter
        self._basis: tuple[Mapping[str, NodeView], float, int] | None = None  # the inputs of the current rows

    def note_pod(self, old: PodView | None, new: PodView | None) -> None:
        """Take a change of a pod."""
        if old is not None and self._is_ours(old):
            pods = self._sidecars.get(old.node, {})
            pods.pop(old.key, None)
            if not pods:
                self._sidecars.pop(old.node, None)
            self._touched.add(old.node)
        if new is not None and self._is_ours(new):
            self._sidecars.setdefault(new.node, {})[new.key] = new
            self._touched.add(new.node)

    def current(self, nodes: Mapping[str, NodeView], heard_since: float) -> Mapping[str, NodeView]:
        """Return the views of these nodes; ``heard_since``: when the API server began to answer."""
        for name in self._stale(nodes, heard_since):
            self._put(name, nodes.get(name))
        if self._log.changes != self._shown_at:
            self._shown, self._shown_at = Snapshot(self._rows, self._log), self._log.changes
        self._basis = (nodes, heard_since, self._leaving.changes)
        return self._shown

    def _stale(self, nodes: Mapping[str, NodeView], heard_since: float) -> Iterable[str]:
        """Return the nodes whose view may have changed or gone."""
        if self._basis is not None and self._basis[1:] == (heard_since, self._leaving.changes):
            return {*changed_keys(self._basis[0], nodes), *self._touched}
        return {**self._rows, **nodes}

    def _put(self, name: str, node: NodeView | None) -> None:
        self._touched.discard(name)
        if node is None:
            self._known.pop(name, None)
            shown = None
        else:
            self._known[name] = self._show(node)
            shown = self._known[name].shown
        if shown is self._rows.get(name):
            return
        self._log.note(name)
        if shown is None:
            del self._rows[name]
        else:
            self._rows[name] = shown

    def _show(self, node: NodeView) -> _ShownNode:
        known, pods = self._known.get(node.name), self._sidecars.get(node.name, {}).values()
        ready = any(pod.ready and not pod.deleting for pod in pods)
        silent = self._heard(0.0 if ready else max((pod.not_ready_since for pod in pods), default=0.0))
        not_ready, leaving = self._heard(node.not_ready_since), self._leaving.reason(node)
        address = _address(pods) or ("" if known is None or known.node.uid != node.uid else known.shown.address)
        if known is not None and known.node is node:
            shown = known.shown
            before = (shown.sidecar_ready, shown.sidecar_silent_since, shown.not_ready_since, shown.leaving)
            if (*before, shown.address) == (ready, silent, not_ready, leaving, address):
                return known
        shown = replace(
            node,
            sidecar_ready=ready,
            sidecar_silent_since=silent,
            not_ready_since=not_ready,
            leaving=leaving,
            address=address,
        )
        return _ShownNode(node, shown)

    def _is_ours(self, pod: PodView) -> bool:
        return pod.sidecar and pod.namespace == self._own_namespace


def _address(pods: Iterable[PodView]) -> str:
    """Return the sidecar's address; empty if no pod has one. Ready pods come first, pods under deletion last.

    While a DaemonSet replaces the pod, the caller keeps the last address, so that peers see one change, not two.
    """
    order = sorted((pod for pod in pods if pod.address), key=lambda pod: (pod.deleting, not pod.ready, pod.name))
    return next((pod.address for pod in order), "")

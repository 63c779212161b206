"""The nodes with what their sidecars' pods say of them; a node that is as it was stays the same object."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from stoker_operator.core.changed_keys import ChangeLog, Snapshot, changed_keys
from stoker_operator.core.views import NodeView, PodView
from stoker_operator.mirror.leaving_nodes import LeavingNodes

_AT_ONCE = 200  # nodes of one step: a millisecond
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
        self._sidecars: Final[dict[str, dict[str, PodView]]] = {}  # by node and key
        self._touched: Final[set[str]] = set()  # nodes whose sidecars' pods changed since they were shown last
        self._known: Final[dict[str, _ShownNode]] = {}
        self._rows: Final[dict[str, NodeView]] = {}
        self._log: Final = ChangeLog()
        self._shown = Snapshot(self._rows, self._log)
        self._shown_at = 0  # so many changes
        self._basis: tuple[Mapping[str, NodeView], float, int] | None = None  # what the rows were made of

    def note_pod(self, old: PodView | None, new: PodView | None) -> None:
        """Take over a change of a pod."""
        if old is not None and self._is_ours(old):
            pods = self._sidecars.get(old.node, {})
            pods.pop(old.key, None)
            if not pods:
                self._sidecars.pop(old.node, None)
            self._touched.add(old.node)
        if new is not None and self._is_ours(new):
            self._sidecars.setdefault(new.node, {})[new.key] = new
            self._touched.add(new.node)

    def prepare(self, nodes: Mapping[str, NodeView], heard_since: float) -> Iterator[None]:
        """Do most of what ``current`` does, in steps."""
        basis = (nodes, heard_since, self._leaving.changes)
        for count, name in enumerate(self._stale(nodes, heard_since)):
            self._put(name, nodes.get(name))
            if count % _AT_ONCE == _AT_ONCE - 1:
                yield
        self._basis = basis

    def current(self, nodes: Mapping[str, NodeView], heard_since: float) -> Mapping[str, NodeView]:
        """Return the views of these nodes; ``heard_since``: what silences are counted by."""
        for name in self._stale(nodes, heard_since):
            self._put(name, nodes.get(name))
        if self._log.changes != self._shown_at:
            self._shown, self._shown_at = Snapshot(self._rows, self._log), self._log.changes
        self._basis = (nodes, heard_since, self._leaving.changes)
        return self._shown

    def _stale(self, nodes: Mapping[str, NodeView], heard_since: float) -> Iterable[str]:
        """Return the nodes that may have to be shown otherwise, or no more."""
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
        if known is not None and known.node is node:
            shown = known.shown
            before = (shown.sidecar_ready, shown.sidecar_silent_since, shown.not_ready_since, shown.leaving)
            if before == (ready, silent, not_ready, leaving):
                return known
        shown = replace(
            node, sidecar_ready=ready, sidecar_silent_since=silent, not_ready_since=not_ready, leaving=leaving
        )
        return _ShownNode(node, shown)

    def _is_ours(self, pod: PodView) -> bool:
        return pod.sidecar and pod.namespace == self._own_namespace

"""The nodes with what their sidecars' pods say of them; a node that is as it was stays the same object."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from stoker_operator.core.changed_keys import ChangeLog, Snapshot, changed_keys
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
        self._silences: tuple[set[str], dict[str, float]] | None = None  # as the sidecars' pods are now
        self._known: Final[dict[str, _ShownNode]] = {}
        self._rows: Final[dict[str, NodeView]] = {}
        self._log: Final = ChangeLog()
        self._shown: Mapping[str, NodeView] = Snapshot(self._rows, self._log)
        self._basis: tuple[Mapping[str, NodeView], float, int] | None = None  # what ``_shown`` was made of

    def note_pod(self, old: PodView | None, new: PodView | None) -> None:
        """Take over a change of a pod."""
        before, after = self._is_ours(old), self._is_ours(new)
        if old is not None and before:
            self._sidecars.pop(old.key, None)
        if new is not None and after:
            self._sidecars[new.key] = new
        if before or after:
            self._basis = self._silences = None

    def prepare(self, nodes: Mapping[str, NodeView], heard_since: float) -> Iterator[None]:
        """Do most of what ``current`` does, in steps."""
        for count, name in enumerate(self._stale(nodes, heard_since)):
            if name in nodes:
                self._known[name] = self._show(nodes[name])
            if count % _AT_ONCE == _AT_ONCE - 1:
                yield

    def current(self, nodes: Mapping[str, NodeView], heard_since: float) -> Mapping[str, NodeView]:
        """Return the views of these nodes; ``heard_since``: what silences are counted by."""
        before = self._log.changes
        for name in self._stale(nodes, heard_since):
            self._put(name, nodes.get(name))
        if self._log.changes != before:
            self._shown = Snapshot(self._rows, self._log)
        self._basis = (nodes, heard_since, self._leaving.changes)
        return self._shown

    def _stale(self, nodes: Mapping[str, NodeView], heard_since: float) -> Iterable[str]:
        """Return the nodes that may have to be shown otherwise, or no more."""
        if self._basis is not None and self._basis[1:] == (heard_since, self._leaving.changes):
            return changed_keys(self._basis[0], nodes)
        return {**self._rows, **nodes}

    def _put(self, name: str, node: NodeView | None) -> None:
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

    def _by_node(self) -> tuple[set[str], dict[str, float]]:
        """Return the nodes with a sidecar that is ready, and since when those of others are not."""
        if self._silences is None:
            ready = {pod.node for pod in self._sidecars.values() if pod.ready and not pod.deleting}
            silent: dict[str, float] = {}
            for pod in self._sidecars.values():
                if pod.node not in ready:
                    silent[pod.node] = max(silent.get(pod.node, 0.0), pod.not_ready_since)
            self._silences = ready, silent
        return self._silences

    def _show(self, node: NodeView) -> _ShownNode:
        known, (sidecars, silences) = self._known.get(node.name), self._by_node()
        ready, silent = node.name in sidecars, self._heard(silences.get(node.name, 0.0))
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

    def _is_ours(self, pod: PodView | None) -> bool:
        return pod is not None and pod.sidecar and pod.namespace == self._own_namespace

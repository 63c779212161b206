"""The mirror of the cluster that informers feed and reconcilers read; it also says who wants to hear of a change."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from stoker_api.meta import Resource
from stoker_operator.core.views import ClusterView, NodeView

# table, the view before, the view now; None: there was or is none
Listener = Callable[["Table", Any | None, Any | None], None]


class Table(StrEnum):
    """What is mirrored; each name is the field of ClusterView."""

    DATASETS = "datasets"
    INVALID_DATASETS = "invalid_datasets"
    NODE_CACHES = "node_caches"
    NODES = "nodes"
    PODS = "pods"
    TRAINING_JOBS = "training_jobs"
    JOBS = "jobs"


class ClusterState:
    """Latest known views, one dict a table. Single-threaded: only the event loop's thread may touch it."""

    def __init__(self, own_namespace: str) -> None:
        self._own_namespace: Final = own_namespace
        self._tables: Final[dict[Table, dict[str, Any]]] = {table: {} for table in Table}
        self._listeners: Final[list[tuple[frozenset[Table], Listener]]] = []
        self._wanted: Mapping[str, frozenset[str]] = MappingProxyType({})
        self._wanted_listeners: Final[list[Callable[[], None]]] = []

    def listen(self, tables: frozenset[Table], listener: Listener) -> None:
        """Call ``listener(table, old, new)`` after each change in the tables; it must not block or raise."""
        self._listeners.append((tables, listener))

    def put(self, table: Table, key: str, view: Any | None) -> None:
        """Store a view, or forget it (None), and tell the listeners when that changed something."""
        rows = self._tables[table]
        old = rows.get(key)
        if old == view or _is_older(view, old):
            return
        if view is None:
            del rows[key]
        else:
            rows[key] = view
        for tables, listener in self._listeners:
            if table in tables:
                listener(table, old, view)

    def feed(self, table: Table) -> Callable[[str, Any | None, Any | None], None]:
        """The ``on_change`` of an informer that mirrors this table."""

        def on_change(key: str, _old: Any | None, new: Any | None) -> None:
            self.put(table, key, new)

        return on_change

    @property
    def wanted(self) -> Mapping[str, frozenset[str]]:
        """Dataset key -> nodes where held pods could run: the gating's wish to the placement."""
        return self._wanted

    def set_wanted(self, wanted: Mapping[str, frozenset[str]]) -> None:
        """Replace the wish; whoever listens is called only when it differs."""
        if dict(wanted) == dict(self._wanted):
            return
        self._wanted = MappingProxyType(dict(wanted))
        for listener in self._wanted_listeners:
            listener()

    def listen_wanted(self, listener: Callable[[], None]) -> None:
        """Call ``listener()`` after each change of the wish."""
        self._wanted_listeners.append(listener)

    def snapshot(self) -> ClusterView:
        """A frozen copy of everything, with each node's ``sidecar_ready`` filled in from the sidecars' pods."""
        tables = {table.value: MappingProxyType(dict(rows)) for table, rows in self._tables.items()}
        return ClusterView(**{**tables, Table.NODES.value: MappingProxyType(self._nodes_with_sidecars())})

    def _nodes_with_sidecars(self) -> dict[str, NodeView]:
        ready = {
            pod.node
            for pod in self._tables[Table.PODS].values()
            if pod.sidecar and pod.ready and not pod.deleting and pod.namespace == self._own_namespace
        }
        nodes: dict[str, NodeView] = self._tables[Table.NODES]
        return {name: replace(node, sidecar_ready=name in ready) for name, node in nodes.items()}


def _is_older(new: Any, known: Any) -> bool:
    """True for a watch event that was overtaken by the answer to a write of ours: taking it would undo what we know."""
    if not isinstance(new, Resource) or not isinstance(known, Resource) or new.metadata.uid != known.metadata.uid:
        return False
    versions = new.metadata.resource_version, known.metadata.resource_version
    # Resource versions of one kind are ordered integers (KEP-5504, Kubernetes 1.35; true of etcd ever since).
    return all(version.isdecimal() for version in versions) and int(versions[0]) < int(versions[1])

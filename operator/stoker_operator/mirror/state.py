"""The mirror of the cluster: a table for each kind, which kopf and informers feed and reconcilers read."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from stoker_api.dataset import Dataset
from stoker_api.meta import Resource
from stoker_api.nodecache import NodeCache
from stoker_api.trainingjob import TrainingJob
from stoker_operator.core.views import ClusterView, InvalidDataset, NodeView, PodView

T = TypeVar("T")
Listener = Callable[[T | None, T | None], None]  # the view before and the view now; None: there was or is none


class MirrorTable(Generic[T]):
    """The latest known views of one kind, by key. Only the event loop's thread may touch it."""

    def __init__(self) -> None:
        self._rows: Final[dict[str, T]] = {}
        self._listeners: Final[list[Listener[T]]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def listen(self, listener: Listener[T]) -> None:
        """Call ``listener(old, new)`` after each change; it must not block or raise."""
        self._listeners.append(listener)

    def put(self, key: str, view: T | None) -> None:
        """Store a view, or forget it (None), and tell the listeners when that changed something."""
        old = self._rows.get(key)
        if old == view or _is_older(view, old):
            return
        if view is None:
            del self._rows[key]
        else:
            self._rows[key] = view
        for listener in self._listeners:
            listener(old, view)

    def feed(self, key: str, _old: T | None, new: T | None) -> None:
        """Take a change from an informer."""
        self.put(key, new)

    def snapshot(self) -> Mapping[str, T]:
        """Copy what is known now."""
        return MappingProxyType(dict(self._rows))


class ClusterState:
    """All tables, and the gating's request to the placement. Single-threaded, as its tables are."""

    def __init__(self, own_namespace: str) -> None:
        self.datasets: Final[MirrorTable[Dataset]] = MirrorTable()
        self.invalid_datasets: Final[MirrorTable[InvalidDataset]] = MirrorTable()
        self.node_caches: Final[MirrorTable[NodeCache]] = MirrorTable()
        self.nodes: Final[MirrorTable[NodeView]] = MirrorTable()
        self.pods: Final[MirrorTable[PodView]] = MirrorTable()
        self.training_jobs: Final[MirrorTable[TrainingJob]] = MirrorTable()
        self.jobs: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        self._own_namespace: Final = own_namespace
        self._wanted: Mapping[str, frozenset[str]] = MappingProxyType({})
        self._wanted_listeners: Final[list[Callable[[], None]]] = []

    @property
    def wanted(self) -> Mapping[str, frozenset[str]]:
        """Dataset key -> nodes where held pods could run: what the gating asks of the placement."""
        return self._wanted

    def set_wanted(self, wanted: Mapping[str, frozenset[str]]) -> None:
        """Replace the request; whoever listens is called only when it differs."""
        if dict(wanted) == dict(self._wanted):
            return
        self._wanted = MappingProxyType(dict(wanted))
        for listener in self._wanted_listeners:
            listener()

    def listen_wanted(self, listener: Callable[[], None]) -> None:
        """Call ``listener()`` after each change of the request."""
        self._wanted_listeners.append(listener)

    def sizes(self) -> Mapping[str, int]:
        """Count the objects of each table, by its name."""
        return {name: len(table) for name, table in vars(self).items() if isinstance(table, MirrorTable)}

    def snapshot(self) -> ClusterView:
        """Copy everything, with each node's ``sidecar_ready`` filled in from the sidecars' pods."""
        pods = self.pods.snapshot()
        ready = {
            pod.node
            for pod in pods.values()
            if pod.sidecar and pod.ready and not pod.deleting and pod.namespace == self._own_namespace
        }
        nodes = {name: replace(node, sidecar_ready=name in ready) for name, node in self.nodes.snapshot().items()}
        return ClusterView(
            datasets=self.datasets.snapshot(),
            invalid_datasets=self.invalid_datasets.snapshot(),
            node_caches=self.node_caches.snapshot(),
            nodes=MappingProxyType(nodes),
            pods=pods,
            training_jobs=self.training_jobs.snapshot(),
            jobs=self.jobs.snapshot(),
        )


def _is_older(new: object, known: object) -> bool:
    """Recognise a watch event that was overtaken by the answer to a write of ours.

    Taking it would undo what we know.
    """
    if not isinstance(new, Resource) or not isinstance(known, Resource) or new.metadata.uid != known.metadata.uid:
        return False
    versions = new.metadata.resource_version, known.metadata.resource_version
    # Resource versions of one kind are ordered integers (KEP-5504, Kubernetes 1.35; true of etcd ever since).
    return all(version.isdecimal() for version in versions) and int(versions[0]) < int(versions[1])

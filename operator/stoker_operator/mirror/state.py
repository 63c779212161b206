"""The mirror of the cluster: a table for each kind. kopf, informers and responses to writes feed it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from stoker_api.datasets.dataset import Dataset
from stoker_api.datasets.datasetclass import DatasetClass
from stoker_api.jobs.trainingjob import TrainingJob
from stoker_api.node_caches.node_workload import NodeWorkload
from stoker_api.node_caches.nodecache import NodeCache
from stoker_operator.core.changed_keys import ChangeLog, Snapshot
from stoker_operator.core.classes.dataset_classes import InvalidClass
from stoker_operator.core.classes.profiles import ProfileView
from stoker_operator.core.classes.tuning import ClusterTuning
from stoker_operator.core.kueue.kueue_objects import AdmissionCheckView, QueuedWorkload
from stoker_operator.core.peers.peer_groups import PeerSettings
from stoker_operator.core.plans.admission import AdmissionMemory
from stoker_operator.core.views.cluster import ClusterView, InvalidDataset, InvalidTrainingJob, NodeView, PodView
from stoker_operator.mirror.identity import identity_of
from stoker_operator.mirror.leaving_nodes import LeavingNodes
from stoker_operator.mirror.node_views import NodeViews

T = TypeVar("T")
_Wanted = Mapping[str, frozenset[str]]
Listener = Callable[[T | None, T | None], None]  # the view before and the view now; None: no object

# Seconds. A longer silence before the API server answered again counts as silence of the node.
_LONGEST_OUTAGE = 900.0
REMEMBERED = 10_000  # UIDs of deleted objects: responses come within seconds, and few kinds lose that many in this time


class MirrorTable(Generic[T]):
    """The latest known views of one kind, by key. Only the event loop's thread may use it.

    A watch and the responses to writes both feed the table, in any order. The newest state wins (``resourceVersion``).
    Deleted objects stay deleted: the table remembers their UIDs.

    If both sources deliver the same state, the first row stays.
    """

    def __init__(self) -> None:
        self._rows: Final[dict[str, T]] = {}
        self._gone: Final[dict[str, None]] = {}
        self._listeners: Final[list[Listener[T]]] = []
        self._shown: Snapshot[T] | None = None  # the last copy, while nothing changed
        self._log: Final = ChangeLog()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def changes(self) -> int:
        """Number of changes so far, for callers that cache a result computed from all rows."""
        return self._log.changes

    def get(self, key: str) -> T | None:
        """Return the row of one object."""
        return self._rows.get(key)

    def listen(self, listener: Listener[T]) -> None:
        """Call ``listener(old, new)`` after each change; it must not block or raise."""
        self._listeners.append(listener)

    def put(self, key: str, view: T | None) -> None:
        """Store a newer view, or delete the row (None); then notify the listeners."""
        old = self._rows.get(key)
        before, now = identity_of(old), identity_of(view)
        if view is not None and (now.uid in self._gone or now.is_older_than(before)):
            return
        if now.uid and now == before and old == view:
            return  # both sources delivered this state: keep the row, and so the results computed from it
        if old is not None and before.uid != now.uid:
            self._bury(before.uid)
        self._replace(key, old, view)

    def feed(self, key: str, old: T | None, new: T | None) -> None:
        """Take a change from an informer; ``old``: the informer's previous view."""
        if new is None:
            self.forget(key, identity_of(old).uid)
        else:
            self.put(key, new)

    def forget(self, key: str, uid: str) -> None:
        """Delete the object of that UID; a newer object of the same name stays."""
        self._bury(uid)
        if identity_of(self._rows.get(key)).uid == uid:
            self._replace(key, self._rows.get(key), None)

    def clear(self) -> None:
        """Remove all rows because their watch ended; the objects may still exist."""
        for key, row in list(self._rows.items()):
            self._replace(key, row, None)

    def snapshot(self) -> Mapping[str, T]:
        """Return all rows. The same object is returned until a row changes."""
        if self._shown is None:
            self._shown = Snapshot(self._rows, self._log)
        return self._shown

    def _replace(self, key: str, old: T | None, view: T | None) -> None:
        self._shown = None
        self._log.note(key)
        if view is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = view
        if old != view:
            for listener in self._listeners:
                listener(old, view)

    def _bury(self, uid: str) -> None:
        if uid:
            self._gone[uid] = None
        while len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]


class ClusterState:
    """All tables, and the data that held pods and queued Workloads want. Single-threaded, like its tables."""

    def __init__(
        self,
        own_namespace: str,
        tuning: ClusterTuning | None = None,
        leaving_taints: Collection[str] = (),
        peer_settings: PeerSettings | None = None,
    ) -> None:
        """Start empty; the operator and the sidecars run in ``own_namespace``.

        ``tuning``: the cluster's tuning settings; by default tuning is on, without a default profile.
        ``leaving_taints``: taints that mark a node as about to leave, each ``key`` or ``key=value``.
        """
        self.datasets: Final[MirrorTable[Dataset | InvalidDataset]] = MirrorTable()
        self.dataset_classes: Final[MirrorTable[DatasetClass | InvalidClass]] = MirrorTable()
        self.tuning_profiles: Final[MirrorTable[ProfileView]] = MirrorTable()
        self.node_caches: Final[MirrorTable[NodeCache]] = MirrorTable()
        self.nodes: Final[MirrorTable[NodeView]] = MirrorTable()
        self.pods: Final[MirrorTable[PodView]] = MirrorTable()
        self.training_jobs: Final[MirrorTable[TrainingJob | InvalidTrainingJob]] = MirrorTable()
        self.jobs: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        # Grants for nodes to read credentials: only Stoker's own objects, as trimmed by mirror/grants.py.
        self.roles: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        self.role_bindings: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        self.node_accounts: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        # Kueue's objects, if Kueue is installed: the checks that name Stoker, and all Workloads.
        self.admission_checks: Final[MirrorTable[AdmissionCheckView]] = MirrorTable()
        self.queued_workloads: Final[MirrorTable[QueuedWorkload]] = MirrorTable()
        self.own_namespace: Final = own_namespace
        self.heard_since = 0.0  # seconds since the epoch: the API server has answered since then
        self._tuning: Final = tuning or ClusterTuning()
        self._peer_settings: Final = peer_settings or PeerSettings()
        self._admission: Final = AdmissionMemory()
        self.leaving: Final = LeavingNodes(leaving_taints)
        self.nodes.listen(self.leaving.note_node)
        self.pods.listen(self.leaving.note_pod)
        self.node_caches.listen(self.leaving.note_cache)
        self._node_views: Final = NodeViews(own_namespace, self.heard, self.leaving)
        self.pods.listen(self._node_views.note_pod)
        self._asked: Final[dict[str, tuple[_Wanted, Mapping[str, _Wanted]]]] = {}  # by asker
        self._wanted: _Wanted = MappingProxyType({})
        self._wanted_versions: Mapping[str, _Wanted] = MappingProxyType({})
        self._wanted_listeners: Final[list[Callable[[], None]]] = []

    @property
    def wanted(self) -> Mapping[str, frozenset[str]]:
        """Dataset key -> nodes where held pods and queued Workloads could run: the request to the placement."""
        return self._wanted

    @property
    def wanted_versions(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Dataset key -> node -> the versions, besides the current one, that the pods would mount."""
        return self._wanted_versions

    def set_wanted(
        self,
        wanted: Mapping[str, frozenset[str]],
        versions: Mapping[str, Mapping[str, frozenset[str]]] = MappingProxyType({}),
        asker: str = "pods",
    ) -> None:
        """Replace one asker's request; call the listeners only if it differs."""
        asked = dict(wanted), dict(versions)
        if asked == self._asked.get(asker, ({}, {})):
            return
        self._asked[asker] = asked
        self._wanted = MappingProxyType(_union(one for one, _ in self._asked.values()))
        keys = {key for _, one in self._asked.values() for key in one}
        self._wanted_versions = MappingProxyType(
            {key: _union(one[key] for _, one in self._asked.values() if key in one) for key in keys}
        )
        for listener in self._wanted_listeners:
            listener()

    def listen_wanted(self, listener: Callable[[], None]) -> None:
        """Call ``listener()`` after each change of the request."""
        self._wanted_listeners.append(listener)

    def workloads(self) -> Iterator[NodeWorkload]:
        """Yield the rows that nodes report about their own pods."""
        for name, cache in self.node_caches.snapshot().items():
            for row in cache.status.workloads:
                pod = self.pods.get(row.pod)
                if pod is not None and (pod.uid, pod.node) == (row.uid, name):
                    yield row

    def tuning(self) -> ClusterTuning:
        """Return the cluster's tuning settings and profiles."""
        return replace(self._tuning, profiles=self.tuning_profiles.snapshot())

    def sizes(self) -> Mapping[str, int]:
        """Count the rows of each table, by the table's name."""
        return {name: len(table) for name, table in vars(self).items() if isinstance(table, MirrorTable)}

    def snapshot(self) -> ClusterView:
        """Return a view of all tables, with the limits of their classes applied to Datasets.

        Each node's ``sidecar_ready`` and ``sidecar_silent_since`` come from its sidecar pods. Silence during an outage
        of the API server does not count, because no node could report, unless the outage was long.
        """
        admitted = self._admission.admit_all(self.datasets.snapshot(), self.dataset_classes.snapshot())
        jobs = self.training_jobs.snapshot()
        return ClusterView(
            datasets=admitted.datasets,
            terms=admitted.terms,
            invalid_datasets=admitted.invalid,
            node_caches=self.node_caches.snapshot(),
            nodes=self._node_views.current(self.nodes.snapshot(), self.heard_since),
            pods=self.pods.snapshot(),
            training_jobs={key: one for key, one in jobs.items() if isinstance(one, TrainingJob)},
            invalid_training_jobs={key: one for key, one in jobs.items() if isinstance(one, InvalidTrainingJob)},
            jobs=self.jobs.snapshot(),
            tuning=self.tuning(),
            peer_settings=self._peer_settings,
        )

    def heard(self, since: float) -> float:
        """Return the time from which a silence that began at ``since`` counts, both in seconds since the epoch."""
        return max(since, self.heard_since) if self.heard_since - since < _LONGEST_OUTAGE else since


def _union(parts: Iterable[_Wanted]) -> dict[str, frozenset[str]]:
    """Merge sets by key."""
    found: dict[str, frozenset[str]] = {}
    for part in parts:
        for key, names in part.items():
            found[key] = found[key] | names if key in found else names
    return found

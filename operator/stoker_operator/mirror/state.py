"""The mirror of the cluster: a table for each kind, which kopf, informers and answers of writes feed."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from stoker_api.dataset import Dataset
from stoker_api.datasetclass import DatasetClass
from stoker_api.node_workload import NodeWorkload
from stoker_api.nodecache import NodeCache
from stoker_api.trainingjob import TrainingJob
from stoker_operator.core.admission import AdmissionMemory
from stoker_operator.core.changed_keys import ChangeLog, Snapshot
from stoker_operator.core.dataset_classes import InvalidClass
from stoker_operator.core.kueue_objects import AdmissionCheckView, QueuedWorkload
from stoker_operator.core.nearness import ClusterNeighbours
from stoker_operator.core.profiles import ProfileView
from stoker_operator.core.tuning import ClusterTuning
from stoker_operator.core.views import ClusterView, InvalidDataset, InvalidTrainingJob, NodeView, PodView
from stoker_operator.mirror.identity import identity_of
from stoker_operator.mirror.leaving_nodes import LeavingNodes
from stoker_operator.mirror.node_views import NodeViews

T = TypeVar("T")
_Wanted = Mapping[str, frozenset[str]]
Listener = Callable[[T | None, T | None], None]  # the view before and the view now; None: there was or is none

# Seconds. Whoever was silent for longer before the API server answered was not silent because it did not.
_LONGEST_OUTAGE = 900.0
REMEMBERED = 10_000  # UIDs of deleted objects: answers come within seconds, and few kinds lose so many in that time


class MirrorTable(Generic[T]):
    """The latest known views of one kind, by key. Only the event loop's thread may touch it.

    Two sources tell of an object, a watch and the answers to our own writes, and neither waits for the other. The
    newest state counts (``resourceVersion``), and what was deleted stays deleted: its UID is remembered.

    Of the same state the first row stays.
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
        """How many there were so far: for whoever works something out of all rows."""
        return self._log.changes

    def get(self, key: str) -> T | None:
        """Return what is known of one object."""
        return self._rows.get(key)

    def listen(self, listener: Listener[T]) -> None:
        """Call ``listener(old, new)`` after each change; it must not block or raise."""
        self._listeners.append(listener)

    def put(self, key: str, view: T | None) -> None:
        """Store a view unless it was overtaken, or take what is there for deleted (None); tell who listens."""
        old = self._rows.get(key)
        before, now = identity_of(old), identity_of(view)
        if view is not None and (now.uid in self._gone or now.is_older_than(before)):
            return
        if now.uid and now == before and old == view:
            return  # told by both: what was worked out of the one row holds for the other, and is not worked out again
        if old is not None and before.uid != now.uid:
            self._bury(before.uid)
        self._replace(key, old, view)

    def feed(self, key: str, old: T | None, new: T | None) -> None:
        """Take a change from an informer, which knew ``old``."""
        if new is None:
            self.forget(key, identity_of(old).uid)
        else:
            self.put(key, new)

    def forget(self, key: str, uid: str) -> None:
        """Take the object of that UID for deleted; another one of its name, if one is known already, stays."""
        self._bury(uid)
        if identity_of(self._rows.get(key)).uid == uid:
            self._replace(key, self._rows.get(key), None)

    def clear(self) -> None:
        """Forget all rows, whose objects may be there still: who told of them does so no more."""
        for key, row in list(self._rows.items()):
            self._replace(key, row, None)

    def snapshot(self) -> Mapping[str, T]:
        """Return what is known now, as one object for as long as that is the same."""
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
    """All tables, and the gating's request to the placement. Single-threaded, as its tables are."""

    def __init__(
        self,
        own_namespace: str,
        tuning: ClusterTuning | None = None,
        leaving_taints: Collection[str] = (),
        neighbours: ClusterNeighbours | None = None,
    ) -> None:
        """Begin with nothing; the operator and the sidecars run in ``own_namespace``.

        ``tuning``: what was set of it at the start; absent: it is on, and no profile is the default.
        ``leaving_taints``: what says of a node that it is about to go, each ``key`` or ``key=value``.
        """
        self.datasets: Final[MirrorTable[Dataset | InvalidDataset]] = MirrorTable()
        self.dataset_classes: Final[MirrorTable[DatasetClass | InvalidClass]] = MirrorTable()
        self.tuning_profiles: Final[MirrorTable[ProfileView]] = MirrorTable()
        self.node_caches: Final[MirrorTable[NodeCache]] = MirrorTable()
        self.nodes: Final[MirrorTable[NodeView]] = MirrorTable()
        self.pods: Final[MirrorTable[PodView]] = MirrorTable()
        self.training_jobs: Final[MirrorTable[TrainingJob | InvalidTrainingJob]] = MirrorTable()
        self.jobs: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        # What lets nodes read credentials: ours alone, as mirror/grants.py trims them.
        self.roles: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        self.role_bindings: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        self.node_accounts: Final[MirrorTable[Mapping[str, Any]]] = MirrorTable()
        # Kueue's, where there is Kueue: the checks that name Stoker, and all Workloads.
        self.admission_checks: Final[MirrorTable[AdmissionCheckView]] = MirrorTable()
        self.queued_workloads: Final[MirrorTable[QueuedWorkload]] = MirrorTable()
        self.own_namespace: Final = own_namespace
        self.heard_since = 0.0  # seconds since the epoch: from then on the API server has answered
        self._tuning: Final = tuning or ClusterTuning()
        self._neighbours: Final = neighbours or ClusterNeighbours()
        self._admission: Final = AdmissionMemory()
        self.leaving: Final = LeavingNodes(leaving_taints)
        self.nodes.listen(self.leaving.note_node)
        self.pods.listen(self.leaving.note_pod)
        self.node_caches.listen(self.leaving.note_cache)
        self._node_views: Final = NodeViews(own_namespace, self.heard, self.leaving)
        self.pods.listen(self._node_views.note_pod)
        self._asked: Final[dict[str, tuple[_Wanted, Mapping[str, _Wanted]]]] = {}  # by who asks
        self._wanted: _Wanted = MappingProxyType({})
        self._wanted_versions: Mapping[str, _Wanted] = MappingProxyType({})
        self._wanted_listeners: Final[list[Callable[[], None]]] = []

    @property
    def wanted(self) -> Mapping[str, frozenset[str]]:
        """Dataset key -> nodes where held pods and queued Workloads could run: what is asked of the placement."""
        return self._wanted

    @property
    def wanted_versions(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Dataset key -> node -> the versions beside the current one that they would mount."""
        return self._wanted_versions

    def set_wanted(
        self,
        wanted: Mapping[str, frozenset[str]],
        versions: Mapping[str, Mapping[str, frozenset[str]]] = MappingProxyType({}),
        asker: str = "pods",
    ) -> None:
        """Replace what one asker requests; whoever listens is called only when it differs."""
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
        """Yield what all nodes say of their pods."""
        for cache in self.node_caches.snapshot().values():
            yield from cache.status.workloads

    def tuning(self) -> ClusterTuning:
        """Return what the cluster has of tuning."""
        return replace(self._tuning, profiles=self.tuning_profiles.snapshot())

    def sizes(self) -> Mapping[str, int]:
        """Count the objects of each table, by its name."""
        return {name: len(table) for name, table in vars(self).items() if isinstance(table, MirrorTable)}

    def prepare(self) -> Generator[None, None, None]:
        """Do in steps what is long of the next snapshot: after a start, and after a change of classes."""
        yield from self._node_views.prepare(self.nodes.snapshot(), self.heard_since)
        yield from self._admission.prepare(self.datasets.snapshot(), self.dataset_classes.snapshot())

    def snapshot(self) -> ClusterView:
        """Copy everything, with Datasets as their classes let them be.

        Each node's ``sidecar_ready`` and ``sidecar_silent_since`` are filled in from the sidecars' pods. No silence
        counts from before the API server answered, unless it is a long one: nobody could report meanwhile.
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
            neighbours=self._neighbours,
        )

    def heard(self, since: float) -> float:
        """Return since when a silence counts that began at ``since``, both in seconds since the epoch."""
        return max(since, self.heard_since) if self.heard_since - since < _LONGEST_OUTAGE else since


def _union(parts: Iterable[_Wanted]) -> dict[str, frozenset[str]]:
    """Join sets by their keys."""
    found: dict[str, frozenset[str]] = {}
    for part in parts:
        for key, names in part.items():
            found[key] = found[key] | names if key in found else names
    return found

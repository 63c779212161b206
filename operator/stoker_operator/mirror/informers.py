"""The leading replica's watches of kinds with many objects. Each feeds one table of the state."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from stoker_api import names
from stoker_api.node_caches.nodecache import NodeCache
from stoker_kube.api import Kube, Object
from stoker_kube.informer import Informer
from stoker_kube.resources import (
    DATASET_CLASSES,
    JOBS,
    NODE_CACHES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    TUNING_PROFILES,
    Kind,
)
from stoker_kube.watch import watch
from stoker_operator.core.classes.dataset_classes import parse_class
from stoker_operator.core.classes.profiles import ProfileReader
from stoker_operator.core.views.cluster import parse_node, parse_pod
from stoker_operator.core.views.node_cache_reader import NodeCacheReader
from stoker_operator.mirror.identity import identity_of, seen_of
from stoker_operator.mirror.state import ClusterState

_KEPT = ("rules", "roleRef", "subjects")
_METADATA = ("name", "namespace", "uid", "resourceVersion")


def trim_grant(raw: Object) -> Object:
    """Return the object without the fields that no decision reads. Raises KeyError if metadata is incomplete."""
    meta = raw["metadata"]
    kept = {name: meta[name] for name in _METADATA}
    return {"metadata": kept} | {name: raw[name] for name in _KEPT if name in raw}


_JOB_FIELDS = ("metadata", "spec", "status")
_OURS = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"


class Informers:
    """Watches of nodes, pods, NodeCaches, DatasetClasses, TuningProfiles, Jobs and rights.

    Datasets and TrainingJobs come through the front door. ``clock``: seconds since the epoch.
    """

    def __init__(self, kube: Kube, state: ClusterState, clock: Callable[[], float] = time.time) -> None:
        self._kube: Final = kube
        self._clock: Final = clock
        self._state: Final = state
        self._node_caches: Final = NodeCacheReader()
        accounts = names.node_accounts_namespace(state.own_namespace)
        self._all: Final[list[Informer[Any]]] = [
            self._informer(NODES, parse_node, state.nodes.feed),
            self._informer(PODS, parse_pod, state.pods.feed),
            self._informer(NODE_CACHES, self._node_cache, state.node_caches.feed),
            self._informer(DATASET_CLASSES, parse_class, state.dataset_classes.feed),
            self._informer(TUNING_PROFILES, ProfileReader().view, state.tuning_profiles.feed),
            self._informer(JOBS, _trim_job, state.jobs.feed, label_selector=names.LABEL_TRAINING_JOB),
            self._informer(ROLES, trim_grant, state.roles.feed, label_selector=_OURS),
            self._informer(ROLE_BINDINGS, trim_grant, state.role_bindings.feed, label_selector=_OURS),
            self._informer(SERVICE_ACCOUNTS, trim_grant, state.node_accounts.feed, _OURS, accounts),
        ]

    def start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start the watches. The returned tasks end only when cancelled."""
        self._answers_from_now()
        return [tasks.create_task(informer.run(), name=f"informer of {informer.name}") for informer in self._all]

    async def wait_synced(self) -> None:
        """Wait until every table is filled: before that, missing objects would look deleted."""
        for informer in self._all:
            await informer.wait_synced()

    def _node_cache(self, raw: Object) -> NodeCache:
        """Parse a NodeCache, or return the known row of the same revision, which saves a second copy of each."""
        known, now = self._state.node_caches.get(raw["metadata"]["name"]), seen_of(raw)
        if known is not None and now.version and now == identity_of(known):
            return known
        return self._node_caches.view(raw)

    def _informer(
        self,
        kind: Kind,
        transform: Callable[[Object], Any],
        on_change: Callable[..., None],
        label_selector: str = "",
        namespace: str = "",
    ) -> Informer[Any]:
        # Only for nodes: the operator measures their silence, and a refusal for one kind does not mean a server outage.
        told = self._answers_from_now if kind is NODES else _nobody
        events = watch(self._kube, kind, namespace=namespace, label_selector=label_selector, on_new_attempt=told)
        return Informer(events, transform, on_change, kind.plural)

    def _answers_from_now(self) -> None:
        self._state.heard_since = self._clock()


def _nobody() -> None:
    """Do nothing."""


def _trim_job(raw: Object) -> Object:
    """Return a Job without the fields that only the API server's bookkeeping needs."""
    job = {field: raw[field] for field in _JOB_FIELDS if field in raw}
    job["metadata"] = {name: value for name, value in job["metadata"].items() if name != "managedFields"}
    return job

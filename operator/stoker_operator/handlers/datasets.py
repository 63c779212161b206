"""kopf's part in the life of a Dataset: the finalizer, and what happens when it is deleted."""

import logging
from typing import Any, Final

import kopf

from stoker_api import names
from stoker_api.names import Reason
from stoker_kube.errors import KubeError
from stoker_kube.events import EventRecorder
from stoker_operator.core.deletion import Deletion, decide_deletion
from stoker_operator.core.node_states import Holdings
from stoker_operator.core.usage import find_uses
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.dataset_volumes import VolumeKeeper
from stoker_operator.reconcilers.datasets import DatasetReconciler, dataset_ref

log = logging.getLogger(__name__)

RETRY = 5.0  # seconds after which kopf tries again when the API server said no


class DatasetHandlers:
    """What kopf calls. Placement, plans and status are the reconcile loop's, which sees the same Datasets."""

    def __init__(
        self, state: ClusterState, reconciler: DatasetReconciler, volumes: VolumeKeeper, events: EventRecorder
    ) -> None:
        self._state: Final = state
        self._reconciler: Final = reconciler
        self._volumes: Final = volumes
        self._events: Final = events

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Tell kopf about the handlers."""
        where = (names.GROUP, names.VERSION, names.DATASETS_PLURAL)
        kopf.on.create(*where, registry=registry, id="accepted")(self.changed)
        kopf.on.update(*where, registry=registry, id="accepted", field="spec")(self.changed)
        kopf.on.delete(*where, registry=registry, id="deleted")(self.deleted)

    async def changed(self, *, meta: kopf.Meta, **_: Any) -> None:
        """A new spec: say that it was taken. One that does not parse is told of by its condition."""
        key = f"{meta['namespace']}/{meta['name']}"
        if key not in self._state.snapshot().invalid_datasets:
            ref = dataset_ref(meta["namespace"], meta["name"], meta["uid"])
            self._events.event(ref, "Normal", Reason.ACCEPTED, f"generation {meta['generation']} is taken into account")

    async def deleted(self, *, namespace: str | None, name: str | None, uid: str | None, **_: Any) -> None:
        """Hold the object until no pod uses it and no node has it, then take away what was made for it."""
        key = f"{namespace}/{name}"
        while not self._deletion(key, uid or "").done:
            await self._reconciler.next_pass()
        try:
            await self._volumes.remove(namespace or "", name or "")
        except KubeError as error:
            raise kopf.TemporaryError(f"the volume of Dataset {key} could not be removed: {error}", RETRY) from error
        log.info("Dataset %s is cleaned from all nodes and goes", key)

    def _deletion(self, key: str, uid: str) -> Deletion:
        view = self._state.snapshot()
        dataset = view.datasets.get(key)
        if dataset and dataset.metadata.uid == uid and not dataset.metadata.deletion_timestamp:
            # kopf's watch is ahead of ours: the nodes do not know yet.
            return Deletion(blocked=True)
        return decide_deletion(view, Holdings.of(view.node_caches), uid, find_uses(view).get(key, ()))

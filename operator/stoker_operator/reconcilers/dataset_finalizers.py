"""The finalizer of Datasets: added before any object is created for a Dataset, removed after all of them are gone."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.meta import ObjectMeta
from stoker_kube.errors import Conflict, NotFound
from stoker_operator.core.incremental.dataset_decision import Decision
from stoker_operator.core.views.cluster import InvalidDataset
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.dataset_volumes import DatasetVolumes
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.writes.write_budget import WritePriority
from stoker_operator.writes.writer import Writer

log = logging.getLogger(__name__)


class DatasetFinalizers:
    """Adds finalizers to Datasets, and removes them from deleted Datasets without pods or data on nodes."""

    def __init__(self, writer: Writer, state: ClusterState, volumes: DatasetVolumes) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._volumes: Final = volumes
        self._unheld: Final[dict[str, ObjectMeta]] = {}  # by key: Datasets without the finalizer
        self._let_go: Final[dict[str, str]] = {}  # key -> UID of Datasets whose finalizer is already off

    def actions(self, decision: Decision) -> Iterator[KeyedAction]:
        """Yield the actions that add missing finalizers, also to invalid Datasets.

        Also yield the actions that delete the volumes of deleted Datasets and then remove their finalizers.
        """
        for key in decision.changed:
            self._note(key, decision.view.meta(key))
        for key, meta in self._unheld.items():
            yield KeyedAction(hold_key(key), "finalizer", meta.namespace, partial(self._hold, meta))
        for key, deletion in decision.deletions.items():
            going = decision.view.meta(key)
            if going is None or not deletion.done or names.FINALIZER not in going.finalizers or key in self._let_go:
                continue
            act, priority = partial(self._let_one_go, going), WritePriority.PLAN
            yield KeyedAction(deletion_key(key), "deletion", going.namespace, act, priority=priority)

    def _note(self, key: str, meta: ObjectMeta | None) -> None:
        """Take a change of a Dataset."""
        if meta is None or self._let_go.get(key) != meta.uid:
            self._let_go.pop(key, None)
        if meta is None or meta.deletion_timestamp or names.FINALIZER in meta.finalizers:
            self._unheld.pop(key, None)
        else:
            self._unheld[key] = meta

    async def _hold(self, meta: ObjectMeta) -> None:
        written = await self._write(meta, (*meta.finalizers, names.FINALIZER))
        if written is not None:
            self._state.datasets.put(f"{meta.namespace}/{meta.name}", written)

    async def _let_one_go(self, meta: ObjectMeta) -> None:
        await self._volumes.remove(meta.namespace, meta.name)
        left = tuple(one for one in meta.finalizers if one != names.FINALIZER)
        if await self._write(meta, left) is not None:
            self._let_go[f"{meta.namespace}/{meta.name}"] = meta.uid
            if not left:
                self._state.datasets.forget(f"{meta.namespace}/{meta.name}", meta.uid)
            log.info("Dataset %s/%s is removed from all nodes and deleted", meta.namespace, meta.name)

    async def _write(self, meta: ObjectMeta, finalizers: tuple[str, ...]) -> Dataset | InvalidDataset | None:
        try:
            return await self._writer.dataset_finalizers(meta, finalizers)
        except (NotFound, Conflict):
            log.debug("Dataset %s/%s changed: the next pass reads it again", meta.namespace, meta.name)
        return None


def hold_key(dataset: str) -> str:
    """Return the key of the action that adds a Dataset's finalizer."""
    return f"finalizer of Dataset {dataset}"


def deletion_key(dataset: str) -> str:
    """Return the key of the last step of a Dataset's deletion."""
    return f"deletion of Dataset {dataset}"

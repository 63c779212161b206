"""The finalizer of Datasets: put on before anything is made for one, taken off when all of that is gone."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.meta import ObjectMeta
from stoker_kube.errors import Conflict, NotFound
from stoker_operator.core.dataset_decision import Decision
from stoker_operator.core.views import InvalidDataset
from stoker_operator.mirror.state import ClusterState
from stoker_operator.reconcilers.dataset_volumes import DatasetVolumes
from stoker_operator.reconcilers.turns import KeyedAction
from stoker_operator.write_budget import WritePriority
from stoker_operator.writer import Writer

DELETION = "deletion"  # the step that lets a Dataset go
log = logging.getLogger(__name__)


class DatasetFinalizers:
    """A keeper of finalizers: holds every Dataset, lets a deleted one go when no pod uses it and no node has it."""

    def __init__(self, writer: Writer, state: ClusterState, volumes: DatasetVolumes) -> None:
        self._writer: Final = writer
        self._state: Final = state
        self._volumes: Final = volumes
        self._unheld: Final[dict[str, ObjectMeta]] = {}  # by key: those that have no finalizer yet
        self._let_go: Final[dict[str, str]] = {}  # key -> UID whose finalizer is off: the mirror may not know yet

    def actions(self, decision: Decision) -> Iterator[KeyedAction]:
        """Return what would put the finalizer on all Datasets without one, also on those that do not parse.

        And to take it, and what was made for them, away from the deleted ones that may go.
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
            yield KeyedAction(deletion_key(key), DELETION, going.namespace, act, priority=priority)

    def _note(self, key: str, meta: ObjectMeta | None) -> None:
        """Take over what became of a Dataset."""
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
            log.info("Dataset %s/%s is cleaned from all nodes and goes", meta.namespace, meta.name)

    async def _write(self, meta: ObjectMeta, finalizers: tuple[str, ...]) -> Dataset | InvalidDataset | None:
        try:
            return await self._writer.dataset_finalizers(meta, finalizers)
        except (NotFound, Conflict):
            log.debug("Dataset %s/%s changed meanwhile: the next pass sees it as it is", meta.namespace, meta.name)
        return None


def hold_key(dataset: str) -> str:
    """Name the putting on of a Dataset's finalizer."""
    return f"finalizer of Dataset {dataset}"


def deletion_key(dataset: str) -> str:
    """Name the last step of a Dataset's deletion."""
    return f"deletion of Dataset {dataset}"

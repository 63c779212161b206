"""The finalizer of Datasets: put on before anything is made for one, taken off when all of that is gone."""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.meta import ObjectMeta
from stoker_kube.errors import Conflict, NotFound
from stoker_operator.core.dataset_decision import Decision
from stoker_operator.core.views import ClusterView
from stoker_operator.reconcilers.dataset_volumes import DatasetVolumes
from stoker_operator.reconcilers.retries import Retries
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)


class DatasetFinalizers:
    """A keeper of finalizers: holds every Dataset, lets a deleted one go when no pod uses it and no node has it."""

    def __init__(self, writer: Writer, volumes: DatasetVolumes, retries: Retries) -> None:
        self._writer: Final = writer
        self._volumes: Final = volumes
        self._retries: Final = retries
        self._let_go: Final[set[str]] = set()  # UIDs whose finalizer is off: the mirror may not know yet

    async def hold(self, view: ClusterView, now: float) -> None:
        """Put the finalizer on all Datasets that have none, also on those that do not parse."""
        for meta in _all(view):
            if not meta.deletion_timestamp and names.FINALIZER not in meta.finalizers:
                key = f"finalizer of Dataset {meta.namespace}/{meta.name}"
                await self._retries.attempt(key, now, partial(self._hold_one, meta))

    async def let_go(self, view: ClusterView, decision: Decision, now: float) -> None:
        """Take away what was made for the deleted Datasets that may go, then their finalizer."""
        leaving = [meta for meta in _all(view) if meta.deletion_timestamp and names.FINALIZER in meta.finalizers]
        self._let_go.intersection_update({meta.uid for meta in leaving})
        for meta in leaving:
            key = f"{meta.namespace}/{meta.name}"
            if decision.deletions[key].done and meta.uid not in self._let_go:
                await self._retries.attempt(f"deletion of Dataset {key}", now, partial(self._let_one_go, meta))

    async def _hold_one(self, meta: ObjectMeta) -> None:
        await self._write(meta, (*meta.finalizers, names.FINALIZER))

    async def _let_one_go(self, meta: ObjectMeta) -> None:
        await self._volumes.remove(meta.namespace, meta.name)
        if await self._write(meta, tuple(one for one in meta.finalizers if one != names.FINALIZER)):
            self._let_go.add(meta.uid)
            log.info("Dataset %s/%s is cleaned from all nodes and goes", meta.namespace, meta.name)

    async def _write(self, meta: ObjectMeta, finalizers: tuple[str, ...]) -> bool:
        try:
            await self._writer.dataset_finalizers(meta, finalizers)
        except (NotFound, Conflict):
            log.debug("Dataset %s/%s changed meanwhile: the next pass sees it as it is", meta.namespace, meta.name)
            return False
        return True


def _all(view: ClusterView) -> Iterable[ObjectMeta]:
    yield from (dataset.metadata for dataset in view.datasets.values())
    yield from (invalid.metadata for invalid in view.invalid_datasets.values())

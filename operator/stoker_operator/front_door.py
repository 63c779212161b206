"""The front door: Datasets and TrainingJobs as kopf tells of them, in the tables of the mirror, on every replica."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from stoker_api.dataset import Dataset
from stoker_kube.api import Kube, Object
from stoker_kube.resources import DATASETS, TRAINING_JOBS, Kind
from stoker_operator import metrics
from stoker_operator.core.acceptance import parse_dataset, parse_training_job
from stoker_operator.core.catalog import Catalog, CatalogEntry, catalog_entry
from stoker_operator.core.views import InvalidDataset
from stoker_operator.handlers.watched import WatchedKinds
from stoker_operator.kopf_runtime import KopfThread, make_registry
from stoker_operator.mirror.identity import identity_of, seen_of
from stoker_operator.mirror.intake import Intake
from stoker_operator.mirror.state import ClusterState

log = logging.getLogger(__name__)

T = TypeVar("T")


class FrontDoor:
    """The way in for Datasets and TrainingJobs: feeds ``state`` and the webhook's catalog from kopf's events."""

    def __init__(self, kube: Kube, state: ClusterState) -> None:
        self._kube: Final = kube
        self._state: Final = state
        self._entries: Final[dict[str, CatalogEntry]] = {}
        self._intakes: Final[Mapping[Kind, Intake]] = {
            DATASETS: Intake(DATASETS, self._store_dataset),
            TRAINING_JOBS: Intake(TRAINING_JOBS, self._store_training_job),
        }

    @property
    def catalog(self) -> Catalog | None:
        """The Datasets as the webhook sees them (live); None until all are known."""
        return self._entries if self._intakes[DATASETS].whole else None

    async def wait_whole(self) -> None:
        """Wait until everything that existed at the start is known: before that, what is missing would look deleted."""
        for intake in self._intakes.values():
            await intake.wait_whole()

    async def run(self) -> None:
        """Run kopf and compare what it tells with the API server's lists, until cancelled."""
        registry = make_registry()
        WatchedKinds(self._deliver_to(asyncio.get_running_loop())).register(registry)
        kopf = KopfThread(registry)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kopf.run(), name="kopf")
            for intake in self._intakes.values():
                tasks.create_task(intake.keep(self._kube, kopf.restart), name=f"intake of {intake.kind.plural}")

    def _deliver_to(self, loop: asyncio.AbstractEventLoop) -> Callable[[Kind, str | None, Object], None]:
        def deliver(kind: Kind, event: str | None, item: Object) -> None:
            try:
                loop.call_soon_threadsafe(self._intakes[kind].take, event, item)
            except RuntimeError:
                log.debug("an event of a %s came after the end", kind.kind)

        return deliver

    def _store_dataset(self, key: str, item: Object | None) -> None:
        if item is None:
            self._state.datasets.put(key, None)
            self._entries.pop(key, None)
        elif (view := self._known(key, item) or _read(parse_dataset, key, item)) is not None:
            self._state.datasets.put(key, view)
            self._entries[key] = catalog_entry(view)

    def _known(self, key: str, item: Object) -> Dataset | InvalidDataset | None:
        """Return the Dataset as the mirror has it, if that is this very state: the answer to our own write told it."""
        known, seen = self._state.datasets.get(key), seen_of(item)
        return known if known is not None and seen.version and identity_of(known) == seen else None

    def _store_training_job(self, key: str, item: Object | None) -> None:
        if item is None:
            self._state.training_jobs.put(key, None)
        elif (view := _read(parse_training_job, key, item)) is not None:
            self._state.training_jobs.put(key, view)


def _read(parse: Callable[[Object], T], key: str, item: Object) -> T | None:
    """Read an object; None when it cannot be read. It stays as it was last known, since it was not deleted."""
    try:
        return parse(item)
    except Exception as error:  # noqa: BLE001 -- the boundary of an object: it must not end the loop of all
        metrics.UNREADABLE.labels(str(item.get("kind", "Object"))).inc()
        log.error("%s %s cannot be read and is left as it was: %r", item.get("kind", "Object"), key, error)
        return None

"""Keeps the PersistentVolume and the claim of each Dataset. A user's claim of the same name stays untouched."""

import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.datasets.dataset import Dataset
from stoker_api.names import ConditionType
from stoker_kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stoker_operator.core.plans.volumes import is_ours, persistent_volume_name
from stoker_operator.core.views.conditions import find
from stoker_operator.core.views.due_times import DueTimes
from stoker_operator.reconcilers.loops.turns import KeyedAction
from stoker_operator.writes.writer import Writer

log = logging.getLogger(__name__)

# Longest time in seconds between two checks of a Dataset's volume and claim: people rarely delete them, and a check
# costs two GETs.
RECHECK = 300.0
RECHECK_TAKEN = 30.0  # the same while a foreign claim has the name: the status asks people to rename it
_RELEASED = ("Released", "Failed")  # phases in which a PersistentVolume never binds again


class DatasetVolumes:
    """The volumes and claims of all Datasets. Checks are so rare that a pass without problems costs nothing."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], float],
        wake: Callable[[], None],
        rand: Callable[[], float] = random.random,
    ) -> None:
        """Start empty; ``wake()`` is called after each check.

        ``rand`` spreads the checks, so that those of a thousand Datasets do not coincide.
        """
        self._writer: Final = writer
        self._clock: Final = clock
        self._wake: Final = wake
        self._rand: Final = rand
        self._staying: Final[dict[str, Dataset]] = {}  # by key: those that need a volume and a claim
        self._seen: Final[dict[str, str]] = {}  # key -> UID of the checked Dataset
        self._notes: Final[dict[str, str]] = {}  # key -> sentence
        self._times: Final = DueTimes()  # of the next checks, in seconds since the epoch, by key
        self._overdue: Final[set[str]] = set()  # keys of Datasets to check now
        self._noted: set[str] = set()  # keys checked since the last ``take_noted``

    def note(self, dataset: Dataset) -> str:
        """Return the sentence about this Dataset's claim; empty if the claim is fine.

        Before the first check this comes from the Dataset's status: a new leader knows nothing newer.
        """
        if self._seen.get(dataset.key) == dataset.metadata.uid or not _stays(dataset):
            return self._notes.get(dataset.key, "")
        accepted, taken = find(dataset.status.conditions, ConditionType.ACCEPTED), _taken_sentence(dataset)
        return taken if accepted is not None and taken in accepted.message else ""

    def take_noted(self) -> Collection[str]:
        """Return the keys of Datasets whose ``note`` may have changed since the last call."""
        noted, self._noted = self._noted, set()
        return noted

    def actions(self, datasets: Mapping[str, Dataset], changed: Iterable[str], now: float) -> Iterator[KeyedAction]:
        """Yield the actions that create missing volumes and claims, for Datasets under Stoker's finalizer.

        ``changed``: keys of Datasets that may have changed since the last call.
        """
        for key in changed:
            self._take_over(key, datasets.get(key))
        self._overdue.update(self._times.take(now))
        for key, dataset in [(key, self._staying[key]) for key in self._overdue]:  # a copy: checks change the set
            yield KeyedAction(volume_key(key), "volume", dataset.metadata.namespace, partial(self._look, dataset))

    def due(self, now: float) -> float | None:
        """Return the seconds until the next check; None if none is planned."""
        time = self._times.first()
        return None if time is None else time - now

    def _take_over(self, key: str, dataset: Dataset | None) -> None:
        if dataset is not None and _stays(dataset):
            self._staying[key] = dataset
            if self._seen.get(key) == dataset.metadata.uid:
                return
            self._overdue.add(key)
        else:
            self._staying.pop(key, None)
            self._overdue.discard(key)
        self._times.put(key, ())
        self._seen.pop(key, None)
        self._notes.pop(key, None)

    async def remove(self, namespace: str, name: str) -> None:
        """Delete the claim and the volume if Stoker created them. Raises KubeError."""
        for kind, where, its_name in (
            (PERSISTENT_VOLUME_CLAIMS, namespace, name),
            (PERSISTENT_VOLUMES, "", persistent_volume_name(namespace, name)),
        ):
            found = await self._writer.find(kind, its_name, where)
            if found and is_ours(found):
                await self._writer.delete(kind, its_name, where, found["metadata"]["uid"])

    async def _look(self, dataset: Dataset) -> None:
        key, meta = dataset.key, dataset.metadata
        claim = await self._writer.find(PERSISTENT_VOLUME_CLAIMS, meta.name, meta.namespace)
        if claim is None or is_ours(claim):
            await self._ensure_volume(dataset)
            if claim is None:
                await self._writer.create_claim(dataset)
            taken = ""
        else:
            taken = _taken_sentence(dataset)
        there = self._staying.get(key)
        if there is not None and there.metadata.uid == meta.uid:
            self._note_look(key, meta.uid, taken)
        self._wake()

    def _note_look(self, key: str, uid: str, taken: str) -> None:
        self._seen[key] = uid
        self._notes[key] = taken
        wait = RECHECK_TAKEN if taken else RECHECK
        self._times.put(key, (self._clock() + wait * (0.5 + 0.5 * self._rand()),))
        self._overdue.discard(key)
        self._noted.add(key)

    async def _ensure_volume(self, dataset: Dataset) -> None:
        name = persistent_volume_name(dataset.metadata.namespace, dataset.metadata.name)
        volume = await self._writer.find(PERSISTENT_VOLUMES, name)
        if volume is None:
            await self._writer.create_volume(dataset)
        elif is_ours(volume) and (volume.get("status") or {}).get("phase") in _RELEASED:
            log.info("PersistentVolume %s lost its claim and is created again", name)
            await self._writer.delete(PERSISTENT_VOLUMES, name, uid=volume["metadata"]["uid"])
            await self._writer.create_volume(dataset)


def volume_key(dataset: str) -> str:
    """Return the key of the action that checks a Dataset's volume and claim."""
    return f"volume of Dataset {dataset}"


def _taken_sentence(dataset: Dataset) -> str:
    return (
        f"PersistentVolumeClaim {dataset.metadata.name} exists and is not Stoker's, so none was created: "
        "mount the Dataset by annotation, or rename the claim"
    )


def _stays(dataset: Dataset) -> bool:
    meta = dataset.metadata
    return not meta.deletion_timestamp and names.FINALIZER in meta.finalizers

"""Keeps the PersistentVolume and the claim of each Dataset; a claim of the user's own with that name is left alone."""

import logging
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from stoker_api import names
from stoker_api.dataset import Dataset
from stoker_api.names import ConditionType
from stoker_kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stoker_operator.core.conditions import find
from stoker_operator.core.volumes import is_ours, persistent_volume_name
from stoker_operator.reconcilers.turns import KeyedAction
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

# Seconds, at most, after which a Dataset's volume and claim are looked at again: people delete them rarely, and a look
# costs two GETs.
RECHECK = 300.0
RECHECK_TAKEN = 30.0  # the same while a foreign claim has the name, which people are asked to rename
_RELEASED = ("Released", "Failed")  # phases in which a PersistentVolume never binds again


class DatasetVolumes:
    """The volumes and claims of all Datasets, each looked at so rarely that a pass costs nothing where all is fine."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], float],
        wake: Callable[[], None],
        rand: Callable[[], float] = random.random,
    ) -> None:
        """Prepare to look; ``wake()`` is called after each look.

        ``rand`` spreads the looks, lest those of a thousand Datasets fall on one moment.
        """
        self._writer: Final = writer
        self._clock: Final = clock
        self._wake: Final = wake
        self._rand: Final = rand
        self._next: Final[dict[str, float]] = {}  # uid -> seconds since the epoch
        self._notes: Final[dict[str, str]] = {}  # uid -> sentence

    def note(self, dataset: Dataset) -> str:
        """Return what is to say about the claim of this Dataset; empty when it is fine.

        Until its claim was looked at, that is what its status says: a leader that begins knows nothing better.
        """
        uid = dataset.metadata.uid
        if uid in self._next or not _stays(dataset):
            return self._notes.get(uid, "")
        accepted, taken = find(dataset.status.conditions, ConditionType.ACCEPTED), _taken_sentence(dataset)
        return taken if accepted is not None and taken in accepted.message else ""

    def actions(self, datasets: Iterable[Dataset], now: float) -> Iterator[KeyedAction]:
        """Return what would make what is missing, for Datasets that cannot go before it is taken away again."""
        alive = {d.metadata.uid: d for d in datasets if _stays(d)}
        for uid in self._next.keys() - alive.keys():
            del self._next[uid]
            self._notes.pop(uid, None)
        for uid, dataset in alive.items():
            if self._next.get(uid, 0.0) <= now:
                yield KeyedAction(
                    volume_key(dataset.key), "volume", dataset.metadata.namespace, partial(self._look, dataset)
                )

    def due(self, now: float) -> float | None:
        """Return seconds until the next look; None when there is none to come."""
        return min((time - now for time in self._next.values() if time > now), default=None)

    async def remove(self, namespace: str, name: str) -> None:
        """Delete the claim and the volume, if they are ours. Raises KubeError."""
        for kind, where, its_name in (
            (PERSISTENT_VOLUME_CLAIMS, namespace, name),
            (PERSISTENT_VOLUMES, "", persistent_volume_name(namespace, name)),
        ):
            found = await self._writer.find(kind, its_name, where)
            if found and is_ours(found):
                await self._writer.delete(kind, its_name, where, found["metadata"]["uid"])

    async def _look(self, dataset: Dataset) -> None:
        uid, meta = dataset.metadata.uid, dataset.metadata
        claim = await self._writer.find(PERSISTENT_VOLUME_CLAIMS, meta.name, meta.namespace)
        if claim is None or is_ours(claim):
            await self._ensure_volume(dataset)
            if claim is None:
                await self._writer.create_claim(dataset)
            self._notes.pop(uid, None)
        else:
            self._notes[uid] = _taken_sentence(dataset)
        wait = RECHECK_TAKEN if self._notes.get(uid) else RECHECK
        self._next[uid] = self._clock() + wait * (0.5 + 0.5 * self._rand())
        self._wake()

    async def _ensure_volume(self, dataset: Dataset) -> None:
        name = persistent_volume_name(dataset.metadata.namespace, dataset.metadata.name)
        volume = await self._writer.find(PERSISTENT_VOLUMES, name)
        if volume is None:
            await self._writer.create_volume(dataset)
        elif is_ours(volume) and (volume.get("status") or {}).get("phase") in _RELEASED:
            log.info("PersistentVolume %s lost its claim and is made anew", name)
            await self._writer.delete(PERSISTENT_VOLUMES, name, uid=volume["metadata"]["uid"])
            await self._writer.create_volume(dataset)


def volume_key(dataset: str) -> str:
    """Name the look at a Dataset's volume and claim."""
    return f"volume of Dataset {dataset}"


def _taken_sentence(dataset: Dataset) -> str:
    return (
        f"PersistentVolumeClaim {dataset.metadata.name} exists and is not Stoker's, so none was made: "
        "mount the Dataset by annotation, or rename the claim"
    )


def _stays(dataset: Dataset) -> bool:
    meta = dataset.metadata
    return not meta.deletion_timestamp and names.FINALIZER in meta.finalizers

"""Keeps the PersistentVolume and the claim of each Dataset; a claim of the user's own with that name is left alone."""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

from stoker_api.dataset import Dataset
from stoker_kube.errors import KubeError
from stoker_kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stoker_operator.core.volumes import is_ours, persistent_volume_name
from stoker_operator.reconcilers.retries import Retries
from stoker_operator.writer import Writer

log = logging.getLogger(__name__)

# Seconds after which a Dataset's volume and claim are looked at again: people delete them rarely, and a look costs two
# GETs.
RECHECK = 300.0
RECHECK_TAKEN = 30.0  # the same while a foreign claim has the name, which people are asked to rename
_RELEASED = ("Released", "Failed")  # phases in which a PersistentVolume never binds again


class DatasetVolumes:
    """The volumes and claims of all Datasets, each looked at so rarely that a pass costs nothing where all is fine."""

    def __init__(self, writer: Writer, retries: Retries) -> None:
        self._writer: Final = writer
        self._retries: Final = retries
        self._next: Final[dict[str, float]] = {}  # uid -> seconds since the epoch
        self._notes: Final[dict[str, str]] = {}  # uid -> sentence

    def note(self, dataset: Dataset) -> str:
        """Return what is to say about the claim of this Dataset; empty when it is fine."""
        return self._notes.get(dataset.metadata.uid, "")

    async def ensure(self, datasets: Iterable[Dataset], now: float) -> None:
        """Make what is missing; what cannot be made is noted and tried again later."""
        alive = {d.metadata.uid: d for d in datasets if not d.metadata.deletion_timestamp}
        for uid in self._next.keys() - alive.keys():
            del self._next[uid]
            self._notes.pop(uid, None)
        for uid, dataset in alive.items():
            if self._next.get(uid, 0.0) <= now:
                look = partial(self._ensure_one, dataset, now)
                error = await self._retries.attempt(f"volume of Dataset {dataset.key}", now, look)
                if isinstance(error, KubeError) and not error.temporary:
                    self._notes[uid] = (
                        f"its PersistentVolumeClaim could not be made: {error.message}; "
                        "mount the Dataset by annotation, or put that right"
                    )

    async def remove(self, namespace: str, name: str) -> None:
        """Delete the claim and the volume, if they are ours. Raises KubeError."""
        for kind, where, its_name in (
            (PERSISTENT_VOLUME_CLAIMS, namespace, name),
            (PERSISTENT_VOLUMES, "", persistent_volume_name(namespace, name)),
        ):
            found = await self._writer.find(kind, its_name, where)
            if found and is_ours(found):
                await self._writer.delete(kind, its_name, where, found["metadata"]["uid"])

    async def _ensure_one(self, dataset: Dataset, now: float) -> None:
        uid = dataset.metadata.uid
        if await self._claim_is_free(dataset):
            await self._ensure_volume(dataset)
            await self._writer.create_claim(dataset)
            self._notes.pop(uid, None)
        else:
            self._notes[uid] = (
                f"PersistentVolumeClaim {dataset.metadata.name} exists and is not Stoker's, so none was made: "
                "mount the Dataset by annotation, or rename the claim"
            )
        self._next[uid] = now + (RECHECK_TAKEN if self._notes.get(uid) else RECHECK)

    async def _claim_is_free(self, dataset: Dataset) -> bool:
        claim = await self._writer.find(PERSISTENT_VOLUME_CLAIMS, dataset.metadata.name, dataset.metadata.namespace)
        return claim is None or is_ours(claim)

    async def _ensure_volume(self, dataset: Dataset) -> None:
        name = persistent_volume_name(dataset.metadata.namespace, dataset.metadata.name)
        if await self._writer.create_volume(dataset):
            return
        volume = await self._writer.find(PERSISTENT_VOLUMES, name)
        if volume and is_ours(volume) and (volume.get("status") or {}).get("phase") in _RELEASED:
            log.info("PersistentVolume %s lost its claim and is made anew", name)
            await self._writer.delete(PERSISTENT_VOLUMES, name, uid=volume["metadata"]["uid"])
            await self._writer.create_volume(dataset)

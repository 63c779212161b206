"""Moves running pods to the best mount of their version as soon as it is possible: FUSE, overlay, native; and back if need be."""

import time
from collections.abc import Callable
from typing import Protocol

from stoker_sidecar.volumes.changes import Changes
from stoker_sidecar.volumes.core.mount_plan import Version

# A swap that the system refused is tried again, but not on every change.
TRY_AGAIN_SECONDS = 30.0


class Volumes(Protocol):
    """The publisher."""

    def versions(self) -> frozenset[Version]:
        """Versions that are mounted."""

    async def settle(self, uid: str, digest: str) -> bool:
        """Give every volume of a version the best mount that is possible now; whether all have it."""

    async def tidy(self) -> None:
        """Remove what no mount needs."""


class Promoter:
    """Looks at every mounted version whenever something changed: the fetcher's word, the plan, a layer that was built."""

    def __init__(self, changes: Changes, volumes: Volumes, clock: Callable[[], float] = time.monotonic) -> None:
        self._changes = changes
        self._volumes = volumes
        self._clock = clock
        self._refused: dict[Version, float] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            token = self._changes.token()
            await self.settle_all()
            await self._changes.wait(token, TRY_AGAIN_SECONDS if self._refused else None)

    async def settle_all(self) -> None:
        """One round."""
        mounted = self._volumes.versions()
        self._refused = {version: when for version, when in self._refused.items() if version in mounted}
        for version in mounted:
            if self._clock() - self._refused.get(version, float("-inf")) < TRY_AGAIN_SECONDS:
                continue
            self._refused.pop(version, None)
            if not await self._volumes.settle(*version):
                self._refused[version] = self._clock()
        await self._volumes.tidy()

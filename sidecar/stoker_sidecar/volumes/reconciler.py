"""Moves running pods to the best mount of their version as soon as it is possible, and back if need be."""

import time
from collections.abc import Callable
from typing import Protocol

from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes

# A swap that the system refused is tried again, but not on every change.
TRY_AGAIN_SECONDS = 30.0


class Reconcilable(Protocol):
    """What is reconciled: the mounted volumes of a machine, of which this needs three methods."""

    def versions(self) -> frozenset[VersionKey]:
        """Return the versions that are mounted."""

    async def reconcile(self, uid: str, digest: str) -> bool:
        """Give every volume of a version the best mount that is possible now; return whether all have it."""

    async def collect_layers(self) -> None:
        """Remove what no mount needs."""


class Reconciler:
    """Looks at every mounted version whenever something changed: the fetcher's word, the plan, a layer that was built.

    ``clock`` counts seconds.
    """

    def __init__(self, changes: Changes, volumes: Reconcilable, clock: Callable[[], float] = time.monotonic) -> None:
        self._changes = changes
        self._volumes = volumes
        self._clock = clock
        self._refused: dict[VersionKey, float] = {}

    async def run(self) -> None:
        """Reconcile at every change, until cancelled."""
        while True:
            token = self._changes.token()
            await self.reconcile_all()
            await self._changes.wait(token, TRY_AGAIN_SECONDS if self._refused else None)

    async def reconcile_all(self) -> None:
        """Reconcile each mounted version once, but not what was refused a moment ago."""
        mounted = self._volumes.versions()
        self._refused = {version: when for version, when in self._refused.items() if version in mounted}
        for version in mounted:
            if self._clock() - self._refused.get(version, float("-inf")) < TRY_AGAIN_SECONDS:
                continue
            self._refused.pop(version, None)
            if not await self._volumes.reconcile(*version):
                self._refused[version] = self._clock()
        await self._volumes.collect_layers()

"""Makes the kernel forget the names in overlays, so that files that have arrived are opened on the disk."""

import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus
from stoker_sidecar.errors import MountError
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes

log = logging.getLogger(__name__)

# Seconds between checks of overlays with new files.
LOOK_SECONDS = 5.0
# Minimum seconds between two renewals of one overlay. A renewal costs 2.5 us per known name, and later opens look up
# names again.
_AT_LEAST = 10.0
# Renew a growing version each time it has grown by half: a few dozen times in total.
_GROWTH = 0.5
# The rest after arrivals stop: at once if it is this share of the existing bytes, else within minutes.
_REST = 0.01
_AT_LAST = 300.0


@dataclass
class _Overlay:
    """An overlay's state: bytes at the last renewal, the time of that renewal, and bytes at the last check."""

    renewed: int
    renewed_at: float
    looked: int


def is_due(new: int, before: int, seconds: float, *, quiet: bool) -> bool:
    """Decide whether to renew an overlay.

    ``new`` bytes arrived in the ``seconds`` since its last renewal, when ``before`` bytes existed. ``quiet`` means that
    no bytes arrived since the last check.
    """
    if new <= 0 or seconds < _AT_LEAST:
        return False
    if new >= _GROWTH * before:
        return True
    return quiet and (new >= _REST * before or seconds >= _AT_LAST)


def warm_bytes(status: NodeDatasetStatus | None, digest: str) -> int:
    """Return the bytes of a version on the disk, from its Dataset's row."""
    if status is None:
        return 0
    older = ((one.version, one.warm_bytes) for one in status.older)
    return dict(((status.version, status.warm_bytes), *older)).get(digest, 0)


class OverlayRenewal:
    """Renews overlays as their versions arrive. Until then, a file opened while it was missing stays on FUSE.

    ``overlaid`` returns the versions that pods read through overlays. ``warm_bytes`` returns the bytes of a version on
    the disk. ``renew`` renews an overlay and raises MountError. ``changes`` is marked when files may have arrived.
    ``clock`` counts seconds. Not thread-safe.
    """

    def __init__(
        self,
        overlaid: Callable[[], Collection[VersionKey]],
        warm_bytes: Callable[[VersionKey], int],
        renew: Callable[[VersionKey], Awaitable[None]],
        changes: Changes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._overlaid = overlaid
        self._warm_bytes = warm_bytes
        self._renew = renew
        self._changes = changes
        self._clock = clock
        self._overlays: dict[VersionKey, _Overlay] = {}

    async def run(self) -> None:
        """Check periodically while a renewal is outstanding, else at changes, until cancelled."""
        while True:
            token = self._changes.token()
            await self.look()
            if any(one.looked != one.renewed for one in self._overlays.values()):
                await self._changes.wait(None, LOOK_SECONDS)
            else:
                await self._changes.wait(token)

    async def look(self) -> None:
        """Renew the overlays that are due."""
        overlaid = self._overlaid()
        self._overlays = {version: one for version, one in self._overlays.items() if version in overlaid}
        for version in overlaid:
            await self._look_at(version)

    async def _look_at(self, version: VersionKey) -> None:
        warm, now = self._warm_bytes(version), self._clock()
        one = self._overlays.setdefault(version, _Overlay(warm, now, warm))
        quiet, one.looked = warm == one.looked, warm
        if not is_due(warm - one.renewed, one.renewed, now - one.renewed_at, quiet=quiet):
            one.renewed = min(one.renewed, warm)  # files were dropped
            return
        one.renewed, one.renewed_at = warm, now
        try:
            await self._renew(version)
        except MountError as error:
            log.warning("the overlay of dataset %s, version %s, keeps the names that it knows: %s", *version, error)

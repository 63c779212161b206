"""Has the kernel forget the names of overlays, so that files that have arrived below are opened where they lie."""

import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from stoker_api.nodecache import NodeDatasetStatus
from stoker_sidecar.errors import MountError
from stoker_sidecar.volumes.core.publish import VersionKey
from stoker_sidecar.volumes.synchronization import Changes

log = logging.getLogger(__name__)

# Seconds between looks at overlays below which something has arrived.
LOOK_SECONDS = 5.0
# Seconds between two renewals of one overlay: each costs 2.5 us a name that is known, and what is opened next is looked
# up anew.
_AT_LEAST = 10.0
# A version that fills up is renewed each time that it has grown by half, so a few dozen times on its whole way.
_GROWTH = 0.5
# What is left when nothing arrives any more: at once where it is this share of what is there, else within minutes.
_REST = 0.01
_AT_LAST = 300.0


@dataclass
class _Overlay:
    """What is known of an overlay: bytes that lay there at the last renewal, when that was, and at the last look."""

    renewed: int
    renewed_at: float
    looked: int


def is_due(new: int, before: int, seconds: float, *, quiet: bool) -> bool:
    """Decide whether to renew an overlay.

    ``new`` bytes arrived in the ``seconds`` since it was renewed, when ``before`` lay there. ``quiet``: none of them
    since the last look.
    """
    if new <= 0 or seconds < _AT_LEAST:
        return False
    if new >= _GROWTH * before:
        return True
    return quiet and (new >= _REST * before or seconds >= _AT_LAST)


def warm_bytes(status: NodeDatasetStatus | None, digest: str) -> int:
    """Return how much of a version is on the disk, as far as its Dataset's row tells."""
    if status is None:
        return 0
    older = ((one.version, one.warm_bytes) for one in status.older)
    return dict(((status.version, status.warm_bytes), *older)).get(digest, 0)


class OverlayRenewal:
    """Renews overlays as their versions arrive; a file that was opened while it was missing stays with FUSE until then.

    ``overlaid``: returns the versions that pods read through overlays. ``warm_bytes``: how much of a version is on the
    disk. ``renew``: does it; raises MountError. ``changes``: is marked when something may have arrived. ``clock``
    counts seconds. Not for threads.
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
        """Look now and then while something is not renewed yet, else at changes, until cancelled."""
        while True:
            token = self._changes.token()
            await self.look()
            if any(one.looked != one.renewed for one in self._overlays.values()):
                await self._changes.wait(None, LOOK_SECONDS)
            else:
                await self._changes.wait(token)

    async def look(self) -> None:
        """Renew what is due."""
        overlaid = self._overlaid()
        self._overlays = {version: one for version, one in self._overlays.items() if version in overlaid}
        for version in overlaid:
            await self._look_at(version)

    async def _look_at(self, version: VersionKey) -> None:
        warm, now = self._warm_bytes(version), self._clock()
        one = self._overlays.setdefault(version, _Overlay(warm, now, warm))
        quiet, one.looked = warm == one.looked, warm
        if not is_due(warm - one.renewed, one.renewed, now - one.renewed_at, quiet=quiet):
            one.renewed = min(one.renewed, warm)  # something was dropped
            return
        one.renewed, one.renewed_at = warm, now
        try:
            await self._renew(version)
        except MountError as error:
            log.warning("the overlay of dataset %s, version %s, keeps the names that it knows: %s", *version, error)

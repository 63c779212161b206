"""Writes NodeCache.status: at once when something happened, seldom while only figures move, never when nothing changed."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from stoker_api.nodecache import NodeCacheStatus
from stoker_kube.api import Kube
from stoker_kube.backoff import Backoff
from stoker_kube.errors import KubeError, NotFound
from stoker_kube.resources import NODE_CACHES
from stoker_sidecar.agent.core.status import is_urgent
from stoker_sidecar.volumes.synchronization import Changes

log = logging.getLogger(__name__)
FIGURES_SECONDS = 2.0  # between two writes in which only figures moved: a person's progress bar, times a thousand nodes
URGENT_SECONDS = 0.2  # between any two writes: a burst of mounts becomes a few writes


class StatusWriter:
    """``compute(written)`` gives the status as it should be, from the one written last (None: not by this process)."""

    def __init__(
        self,
        kube: Kube,
        node_name: str,
        changes: Changes,
        compute: Callable[[NodeCacheStatus | None], NodeCacheStatus | None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._kube = kube
        self._node_name = node_name
        self._changes = changes
        self._compute = compute
        self._clock = clock
        self._sleep = sleep
        self._written: NodeCacheStatus | None = None
        self._written_at = float("-inf")
        self._backoff = Backoff(first=0.5, cap=15.0)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            token = self._changes.token()
            wait = await self.write_if_due()
            await self._changes.wait(token, wait)
            await self._sleep(max(0.0, self._written_at + URGENT_SECONDS - self._clock()))

    async def write_if_due(self) -> float | None:
        """Write when it is time; seconds until it may be time again with no further change, None: never."""
        status = self._compute(self._written)
        if status is None:
            self._written = None  # no NodeCache: the next one must be told everything
        if status is None or status == self._written:
            return None
        urgent = self._written is None or is_urgent(self._written, status)
        left = 0.0 if urgent else self._written_at + FIGURES_SECONDS - self._clock()
        if left > 0:
            return left
        try:
            await self._kube.patch(NODE_CACHES, self._node_name, {"status": status.wire()}, subresource="status")
        except NotFound:
            self._written = None  # the operator makes it again, and then this status must be written whole
            return None
        except KubeError as error:
            log.warning("the status of this node cannot be written now: %s", error.message)
            return self._backoff.next()
        self._written, self._written_at = status, self._clock()
        self._backoff.reset()
        return None

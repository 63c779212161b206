"""An API server in memory whose reads, writes and watches have random delays, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import datetime
from random import Random
from typing import Any

from stoker_kube.api import Listing, Object
from stoker_kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Kind
from tests.fakes.kube import FakeKube

# In seconds. Many requests take almost no time, so some clients know of a change before all watches.
REQUESTS = (0.001, 0.001, 0.1, 0.5, 1.0)
ANSWERS = (0.001, 0.001, 0.02, 0.1, 0.3, 0.6, 1.2)
WATCHES = (0.0, 0.0, 0.3, 1.0, 2.5)  # of all events of a watch
JITTER = 0.8  # of each event
# The API server protects volumes and claims, and no controller removes the protection.
PROTECTION = {"finalizers": ["kubernetes.io/protection"]}


class DelayedKube(FakeKube):
    """The server in memory. Each watch keeps the order of its events."""

    def __init__(self, random: Random, clock: Callable[[], datetime]) -> None:
        super().__init__(clock)
        self._random = random
        self._stored: dict[int, float] = {}  # loop time of each resourceVersion
        self.subresource_answers[(PODS.plural, "eviction")] = self._evict

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        async with self._delays():
            return await super().get(kind, name, namespace)

    async def list(self, kind: Kind, *scope: str, **selectors: str) -> Listing:
        async with self._delays():
            return await super().list(kind, *scope, **selectors)

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        if kind in (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS):
            body = body | {"metadata": body["metadata"] | PROTECTION}
        async with self._delays():
            return await super().create(kind, body, namespace)

    async def apply(self, kind: Kind, body: Object, **options: Any) -> Object:
        async with self._delays():
            return await super().apply(kind, body, **options)

    async def patch(self, kind: Kind, name: str, body: Any, namespace: str = "", **options: Any) -> Object:
        async with self._delays():
            return await super().patch(kind, name, body, namespace, **options)

    async def delete(self, kind: Kind, name: str, namespace: str = "", **options: Any) -> None:
        async with self._delays():
            await super().delete(kind, name, namespace, **options)

    async def stream(self, kind: Kind, resource_version: str, *scope: str, **selectors: str) -> AsyncIterator[Object]:
        loop, lag = asyncio.get_running_loop(), self._random.choice(WATCHES)
        async for event in super().stream(kind, resource_version, *scope, **selectors):
            stored = self._stored[int(event["object"]["metadata"]["resourceVersion"])]
            await asyncio.sleep(stored + lag + self._random.uniform(0.0, JITTER) - loop.time())
            yield event

    @asynccontextmanager
    async def _delays(self) -> AsyncIterator[None]:
        """Delay the request and the answer. An error is not delayed."""
        await asyncio.sleep(self._random.choice(REQUESTS))
        yield
        await asyncio.sleep(self._random.choice(ANSWERS))

    def _evict(self, name: str, namespace: str, _body: Object) -> Object:
        """Mark the pod as terminating, as the Eviction API does. No kubelet ends it."""
        pod = deepcopy(self._find(PODS, name, namespace))
        pod["metadata"]["deletionTimestamp"] = self._now()
        evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        pod.setdefault("status", {})["conditions"] = [evicted]
        self._store(PODS, pod)
        return {}

    def _record(self, change: Any) -> None:
        self._stored[change.version] = asyncio.get_running_loop().time()
        super()._record(change)

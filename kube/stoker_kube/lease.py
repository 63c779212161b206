"""Leader election over a coordination.k8s.io Lease: one holder at a time, handed over at once on a graceful stop."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from stoker_api.times import format_time
from stoker_kube.api import Kube, Object
from stoker_kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from stoker_kube.resources import LEASES

_log = logging.getLogger(__name__)

# In the time after which a leader stops: long enough for a server that is slow, and a connection that is dead is not
# waited for twice.
_TRIES = 2


@dataclass(frozen=True, slots=True)
class Observed:
    """The lease as we saw it; ``since`` is our own clock's time of the first sight of this very state.

    Expiry is judged by how long we have seen no change, never by the other's timestamps (client-go's rule), so clocks
    may differ.
    """

    holder: str
    version: str
    duration: float
    since: float


def is_free(seen: Observed, identity: str, now: float) -> bool:
    """Tell whether ``identity`` may take (or keep) the lease."""
    return seen.holder in ("", identity) or now - seen.since > seen.duration


class LeaderElection:
    """One candidate for a Lease.

    ``await acquire()``, work until ``lost`` is set, ``await release()``. All times in seconds.
    """

    def __init__(
        self,
        client: Kube,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = 15.0,
        renew: float = 10.0,
        retry: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        """Prepare to take part.

        Seconds: ``renew``, after which one gives up, is less than ``duration``, so that we stop before another
        starts.
        """
        self._client = client
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self._duration = duration
        self._renew = renew
        self._retry = retry
        self._clock = clock
        self._sleep = sleep
        self._seen: Observed | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    async def acquire(self) -> None:
        """Wait until the lease is ours; from then on it is renewed in the background until ``lost`` or ``release``."""
        began = self._clock()
        while not await self._attempt(self._renew / _TRIES):
            await self._sleep(self._retry * (1 + 0.2 * random.random()))
            began = self._clock()
        _log.info("%s holds the lease %s/%s and leads", self.identity, self._namespace, self._name)
        self._keeper = asyncio.create_task(self._keep(began), name=f"lease-{self._name}")

    async def release(self) -> None:
        """Stop renewing and hand the lease over.

        Does nothing when it is not ours; an unreachable server is only logged.
        """
        if self._keeper is None:
            return
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        if self.lost.is_set() or self._seen is None:
            return
        try:
            async with asyncio.timeout(self._renew / 2):
                await self._hand_over(self._seen)
        except (KubeError, TimeoutError) as error:
            _log.warning("The lease could not be handed over and will run out by itself: %s", error or "no answer")

    async def _hand_over(self, seen: Observed) -> None:
        while seen.holder == self.identity:
            body = {
                "metadata": {"resourceVersion": seen.version},
                "spec": {"holderIdentity": "", "renewTime": _now()},
            }
            try:
                seen = self._see(await self._client.patch(LEASES, self._name, body, self._namespace))
            except Conflict:  # the renewal that was cancelled on its way was carried out after all
                seen = self._see(await self._client.get(LEASES, self._name, self._namespace))

    async def _keep(self, began: float) -> None:
        # Counted from before the request that renewed: the others count from when the server carried it out, later.
        deadline, pause = began + self._renew, self._retry
        while (left := deadline - self._clock()) > 0:
            await self._sleep(min(pause, left))
            began, pause = self._clock(), self._retry
            if await self._attempt(min(deadline - began, self._renew / _TRIES)):
                deadline = began + self._renew
                continue
            pause = max(0.0, self._retry - (self._clock() - began))  # whoever was not answered in time asks at once
            if self._seen is not None and self._seen.holder not in ("", self.identity):
                break
        _log.error("%s lost the lease %s/%s", self.identity, self._namespace, self._name)
        self.lost.set()

    async def _attempt(self, seconds: float) -> bool:
        """Take or renew the lease if it is free, in that time; whether it is ours now."""
        try:
            # Not wait_for: before Python 3.12 it loses a cancellation that comes with the answer, and release() would
            # hang.
            async with asyncio.timeout(seconds):
                return await self._try()
        except TimeoutError:
            _log.warning("The lease %s/%s was not answered in time", self._namespace, self._name)
        except (AlreadyExists, Conflict):
            pass  # another candidate was faster; the next look shows whom
        except KubeError as error:
            _log.warning("The lease %s/%s cannot be taken: %s", self._namespace, self._name, error.message)
        return False

    async def _try(self) -> bool:
        seen = self._seen
        if seen is not None and seen.holder == self.identity:
            try:
                return await self._renew_as(seen)
            except (Conflict, NotFound):
                pass  # another one wrote it, or an answer of ours was lost: it is looked at
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            body = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": self._spec(0, taken=True)}
            self._see(await self._client.create(LEASES, body, self._namespace))
            return True
        seen = self._see(lease)
        if not is_free(seen, self.identity, self._clock()):
            return False
        if seen.holder == self.identity:
            return await self._renew_as(seen)
        changes = int(lease["spec"].get("leaseTransitions") or 0)
        return await self._write(seen, self._spec(changes, taken=True))

    async def _renew_as(self, seen: Observed) -> bool:
        return await self._write(seen, self._spec(0, taken=False))

    async def _write(self, seen: Observed, spec: Object) -> bool:
        body = {"metadata": {"resourceVersion": seen.version}, "spec": spec}
        self._see(await self._client.patch(LEASES, self._name, body, self._namespace))
        return True

    def _see(self, lease: Object) -> Observed:
        spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
        if self._seen is None or self._seen.version != version:
            seconds = float(spec.get("leaseDurationSeconds") or self._duration)
            self._seen = Observed(spec.get("holderIdentity") or "", version, seconds, self._clock())
        return self._seen

    def _spec(self, transitions: int, taken: bool) -> Object:
        now = _now()
        spec = {"holderIdentity": self.identity, "leaseDurationSeconds": round(self._duration), "renewTime": now}
        return spec | ({"acquireTime": now, "leaseTransitions": transitions + 1} if taken else {})


def _now() -> str:
    return format_time(time.time(), "microseconds")

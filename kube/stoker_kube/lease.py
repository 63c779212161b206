"""Leader election with a coordination.k8s.io Lease. A graceful stop releases the lease."""

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

# Requests within the renew deadline. A second request gets a new connection if the first one is dead.
_TRIES = 2


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed lease. ``since``: local time at which this version was first observed.

    As in client-go, a lease expires by the local clock after no change, so that clocks of candidates may differ.
    """

    holder: str
    version: str
    duration: float
    since: float


def is_free(observed: Observed, identity: str, now: float) -> bool:
    """Return True if ``identity`` may take or keep the lease."""
    return observed.holder in ("", identity) or now - observed.since > observed.duration


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
        """Prepare a candidate.

        ``renew``: seconds without a renewal until the leader stops, less than ``duration``, so that it stops before
        the next leader starts.
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
        self._observed: Observed | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    async def acquire(self) -> None:
        """Wait for the lease, then renew it in the background until ``lost`` or ``release``."""
        began = self._clock()
        while not await self._attempt(self._renew / _TRIES):
            await self._sleep(self._retry * (1 + 0.2 * random.random()))
            began = self._clock()
        _log.info("%s holds the lease %s/%s and leads", self.identity, self._namespace, self._name)
        self._keeper = asyncio.create_task(self._keep(began), name=f"lease-{self._name}")

    async def release(self) -> None:
        """Stop renewing and release the lease, if it is held. Errors are logged."""
        if self._keeper is None:
            return
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        if self.lost.is_set() or self._observed is None:
            return
        try:
            async with asyncio.timeout(self._renew / 2):
                await self._hand_over(self._observed)
        except (KubeError, TimeoutError) as error:
            _log.warning("Cannot release the lease, so it expires later: %s", error or "no answer")

    async def _hand_over(self, observed: Observed) -> None:
        while observed.holder == self.identity:
            body = {
                "metadata": {"resourceVersion": observed.version},
                "spec": {"holderIdentity": "", "renewTime": _now()},
            }
            try:
                observed = self._see(await self._client.patch(LEASES, self._name, body, self._namespace))
            except Conflict:  # the cancelled renewal was executed
                observed = self._see(await self._client.get(LEASES, self._name, self._namespace))

    async def _keep(self, began: float) -> None:
        # The deadline starts before the renewal is sent. Other candidates count from its later execution.
        deadline, pause = began + self._renew, self._retry
        while (left := deadline - self._clock()) > 0:
            await self._sleep(min(pause, left))
            began, pause = self._clock(), self._retry
            if await self._attempt(min(deadline - began, self._renew / _TRIES)):
                deadline = began + self._renew
                continue
            pause = max(0.0, self._retry - (self._clock() - began))  # retry at once after a timeout
            if self._observed is not None and self._observed.holder not in ("", self.identity):
                break
        _log.error("%s lost the lease %s/%s", self.identity, self._namespace, self._name)
        self.lost.set()

    async def _attempt(self, seconds: float) -> bool:
        """Take or renew the lease within ``seconds``. Return True if it is held now."""
        try:
            # Before Python 3.12, wait_for can lose a cancellation that arrives with the answer.
            async with asyncio.timeout(seconds):
                return await self._try()
        except TimeoutError:
            _log.warning("No answer in time for the lease %s/%s", self._namespace, self._name)
        except (AlreadyExists, Conflict):
            pass  # another candidate was faster
        except KubeError as error:
            _log.warning("Cannot take the lease %s/%s: %s", self._namespace, self._name, error.message)
        return False

    async def _try(self) -> bool:
        observed = self._observed
        if observed is not None and observed.holder == self.identity:
            try:
                return await self._renew_as(observed)
            except (Conflict, NotFound):
                pass  # written by another candidate, or the last answer was lost
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            body = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": self._spec(0, taken=True)}
            self._see(await self._client.create(LEASES, body, self._namespace))
            return True
        observed = self._see(lease)
        if not is_free(observed, self.identity, self._clock()):
            return False
        if observed.holder == self.identity:
            return await self._renew_as(observed)
        changes = int(lease["spec"].get("leaseTransitions") or 0)
        return await self._write(observed, self._spec(changes, taken=True))

    async def _renew_as(self, observed: Observed) -> bool:
        return await self._write(observed, self._spec(0, taken=False))

    async def _write(self, observed: Observed, spec: Object) -> bool:
        body = {"metadata": {"resourceVersion": observed.version}, "spec": spec}
        self._see(await self._client.patch(LEASES, self._name, body, self._namespace))
        return True

    def _see(self, lease: Object) -> Observed:
        spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
        if self._observed is None or self._observed.version != version:
            seconds = float(spec.get("leaseDurationSeconds") or self._duration)
            self._observed = Observed(spec.get("holderIdentity") or "", version, seconds, self._clock())
        return self._observed

    def _spec(self, transitions: int, taken: bool) -> Object:
        now = _now()
        spec = {"holderIdentity": self.identity, "leaseDurationSeconds": round(self._duration), "renewTime": now}
        return spec | ({"acquireTime": now, "leaseTransitions": transitions + 1} if taken else {})


def _now() -> str:
    return format_time(time.time(), "microseconds")

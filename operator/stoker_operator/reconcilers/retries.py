"""Attempts that may fail, each with a key and its own back-off, so that one object's trouble delays no other."""

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from stoker_api.backoff import Backoff
from stoker_kube.errors import KubeError
from stoker_operator import metrics

log = logging.getLogger(__name__)

FIRST = 2.0  # seconds: a conflict or a short outage is over by then
LAST = 300.0  # seconds: what a person has to put right is looked at often enough
LAST_TEMPORARY = 30.0  # seconds; an API server that is back is noticed this soon


@dataclass
class _Failure:
    backoff: Backoff
    due: float


class Retries:
    """The keys that failed in the loop ``name``, and when each may be tried again.

    Times are seconds since the epoch.
    """

    def __init__(self, name: str, rand: Callable[[], float] = random.random) -> None:
        self._name: Final = name
        self._rand: Final = rand
        self._failures: Final[dict[str, _Failure]] = {}

    async def attempt(self, key: str, now: float, act: Callable[[], Awaitable[None]]) -> Exception | None:
        """Await ``act()`` unless ``key`` has to wait; gives back what it raised, of any type, which is logged."""
        if not self.is_due(key, now):
            return None
        try:
            await act()
        except Exception as error:
            metrics.RECONCILE_ERRORS.labels(self._name).inc()
            delay = self.failed(key, now, temporary=isinstance(error, KubeError) and error.temporary)
            unexpected = None if isinstance(error, KubeError) else error
            log.warning("%s failed, trying again in %.0f s: %s", key, delay, error, exc_info=unexpected)
            return error
        self.succeeded(key)
        return None

    def is_due(self, key: str, now: float) -> bool:
        """Tell whether ``key`` may be tried now: it has not failed, or long enough ago."""
        failure = self._failures.get(key)
        return failure is None or failure.due <= now

    def failed(self, key: str, now: float, *, temporary: bool = False) -> float:
        """Note a failure; gives the seconds until ``key`` is due, at most twice as many each time."""
        failure = self._failures.setdefault(key, _Failure(Backoff(FIRST, LAST, self._rand), now))
        delay = min(failure.backoff.next(), LAST_TEMPORARY if temporary else LAST)
        failure.due = now + delay
        return delay

    def succeeded(self, key: str) -> None:
        """Forget what went wrong with ``key``."""
        self._failures.pop(key, None)

    def next_due(self, now: float) -> float | None:
        """Return the time at which the first of the failed keys is due again; None when none is to come."""
        for key in [key for key, failure in self._failures.items() if failure.due < now - LAST]:
            del self._failures[key]  # nobody tries it any more
        return min((failure.due for failure in self._failures.values() if failure.due > now), default=None)

"""Runs actions by key: each object has its turn, deadline and back-off, so that no failure blocks other objects.

A pass decides without awaiting and hands in its actions (``KeyedWork.take``). Nothing waits for their end. An action
that a pass does not hand in again is forgotten, unless it is under way.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from stoker_api.backoff import Backoff
from stoker_api.log_lines import log_subject
from stoker_api.names import Reason
from stoker_kube.errors import KubeError, Unavailable
from stoker_kube.events import EventRecorder
from stoker_operator import metrics
from stoker_operator.reconcilers.loops.turns import KeyedAction, Turns
from stoker_operator.writes.write_budget import WriteBudget, WritePriority, acting_for

log = logging.getLogger(__name__)

SECONDS = 10.0  # for one action with all its requests; then it is canceled
AT_ONCE = (
    32  # actions under way per step: a release takes 80 ms on a busy server, so 16 slots make 200 releases a second
)
AT_ONCE_EACH = 4  # of them for one namespace
LENT = 16  # of them for namespaces that need more than AT_ONCE_EACH; the rest stays free for other namespaces
SLOW_AT_ONCE = 4  # actions under way per step for keys that timed out: they take no slot of other keys
FIRST = 2.0  # seconds: a conflict or a short outage is over by then
LAST = 300.0  # seconds: often enough for problems that a person has to fix
LAST_TEMPORARY = 30.0  # seconds; a recovered API server is noticed this soon

_Lane = tuple[str, bool, WritePriority | None]  # a step, whether the last try timed out, and its priority


@dataclass
class _Failure:
    backoff: Backoff
    due: float = 0.0
    mark: object = None
    sentence: str = ""
    slow: bool = False


class KeyedWork:
    """The actions of the reconcile loop ``name``, by key; ``clock`` returns seconds since the epoch.

    With a ``budget`` an action starts when the cluster can take another write of its priority. Until then the key waits
    with its latest action.
    """

    def __init__(
        self,
        name: str,
        clock: Callable[[], float],
        events: EventRecorder,
        rand: Callable[[], float] = random.random,
        budget: WriteBudget | None = None,
    ) -> None:
        self._name: Final = name
        self._budget: Final = budget
        self._clock: Final = clock
        self._events: Final = events
        self._rand: Final = rand
        self._turns: Final[dict[_Lane, Turns]] = {}
        self._later: Final[dict[_Lane, asyncio.Task[None]]] = {}  # lanes that wait for the budget
        self._running: Final[dict[str, asyncio.Task[None]]] = {}
        self._missed: Final[set[str]] = set()  # keys handed in while they were under way
        self._failures: dict[str, _Failure] = {}
        self._again: dict[str, float] = {}  # times at which keys want their next turn
        self._promised = float("inf")  # time of the next pass that ``take`` returned
        self._wake: Callable[[], None] = lambda: None

    def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake()`` whenever another pass is needed earlier than ``take`` said."""
        self._wake = wake

    def wake(self) -> None:
        """Request another pass: an action finished that other objects may wait for."""
        self._wake()

    def take(self, actions: Iterable[KeyedAction], keep: Collection[str] = ()) -> float | None:
        """Replace the actions of the last pass. Return the seconds until a key needs another pass.

        Failures of keys that are in neither ``actions`` nor ``keep`` are forgotten.
        """
        wished = {action.key: action for action in actions}
        lanes: dict[_Lane, dict[str, dict[str, KeyedAction]]] = {lane: {} for lane in self._turns}
        for action in wished.values():
            lane = (action.step, self._is_slow(action.key), action.priority)
            lanes.setdefault(lane, {}).setdefault(action.scope, {})[action.key] = action
        now = self._clock()
        self._forget_but(wished, frozenset(keep))
        running = wished.keys() & self._running.keys()
        self._missed.update(running)
        waiting = [key for key in self._failures if key in wished and self._has_to_wait(wished[key], now)]
        for action in map(wished.__getitem__, (*running, *waiting)):
            for scopes in lanes.values():
                scopes.get(action.scope, {}).pop(action.key, None)
        for lane, scopes in lanes.items():
            self._lane(lane).replace({scope: found for scope, found in scopes.items() if found})
            self._begin(lane)
        metrics.FAILING.labels(self._name).set(len(self._failures))
        self._promised = self._next_due(now)
        return self.due()

    def due(self) -> float | None:
        """Return the seconds until a key wants its next turn; None if none does."""
        now = self._clock()
        time = self._next_due(now)
        return None if time == float("inf") else time - now

    def trouble(self, key: str) -> str:
        """Return the last error of ``key`` as a sentence; empty if its last try succeeded."""
        failure = self._failures.get(key)
        return failure.sentence if failure is not None else ""

    def troubles(self) -> Mapping[str, str]:
        """Return the last errors by key."""
        return {key: failure.sentence for key, failure in self._failures.items()}

    def waiting(self) -> frozenset[str]:
        """Return the keys that failed and wait for their next try."""
        now = self._clock()
        return frozenset(key for key, failure in self._failures.items() if failure.due > now)

    async def settled(self) -> None:
        """Wait until no action is under way or waits for the budget."""
        while under_way := [*self._running.values(), *self._later.values()]:
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Cancel all actions under way."""
        for turns in self._turns.values():
            turns.replace({})
        for task in (*self._running.values(), *self._later.values()):
            task.cancel()
        await self.settled()

    def _has_to_wait(self, action: KeyedAction, now: float) -> bool:
        failure = self._failures.get(action.key)
        return failure is not None and failure.due > now and failure.mark == action.mark

    def _is_slow(self, key: str) -> bool:
        failure = self._failures.get(key)
        return failure is not None and failure.slow

    def _forget_but(self, *kept: Container[str]) -> None:
        def stays(key: str) -> bool:
            return key in self._running or any(key in keys for keys in kept)

        self._failures = {key: one for key, one in self._failures.items() if stays(key)}
        self._again = {key: at for key, at in self._again.items() if stays(key)}

    def _next_due(self, now: float) -> float:
        times = [*(failure.due for failure in self._failures.values()), *self._again.values()]
        return min((time for time in times if time > now), default=float("inf"))

    def _lane(self, lane: _Lane) -> Turns:
        if lane not in self._turns:
            spent = self._budget.spent if self._budget is not None and lane[2] is not None else None
            limits = (SLOW_AT_ONCE, 1, 0) if lane[1] else (AT_ONCE, AT_ONCE_EACH, LENT)
            self._turns[lane] = Turns(*limits, spent)
        return self._turns[lane]

    def _begin(self, lane: _Lane) -> None:
        while not self._is_held_back(lane) and (action := self._lane(lane).begin()) is not None:
            if self._budget is not None and action.priority is not None:
                self._budget.begin(action.priority)
                self._budget.charge(action.payers or (action.scope,))
            task = asyncio.create_task(self._run(action), name=action.key)
            self._running[action.key] = task
            task.add_done_callback(partial(self._ended, action, lane))

    def _is_held_back(self, lane: _Lane) -> bool:
        """Return True if the budget has no write for this lane now; then schedule the next check."""
        scope = self._lane(lane).next_scope()
        if self._budget is None or lane[2] is None or scope is None:
            return False
        if lane not in self._later and (seconds := self._budget.wait(lane[2], scope)):
            self._later[lane] = task = asyncio.create_task(asyncio.sleep(seconds), name=f"budget of {lane[0]}")
            task.add_done_callback(partial(self._go_on, lane))
        return lane in self._later

    def _go_on(self, lane: _Lane, _: asyncio.Task[None]) -> None:
        del self._later[lane]
        self._begin(lane)

    async def _run(self, action: KeyedAction) -> None:
        with log_subject(**_log_fields(action)):
            await self._try(action)

    async def _try(self, action: KeyedAction) -> None:
        try:
            with acting_for(action.priority):
                async with asyncio.timeout(SECONDS):
                    again = await action.act()
        except Exception as error:  # noqa: BLE001 -- the boundary of an object
            self._failed(action, error)
        else:
            self._succeeded(action, again)

    def _ended(self, action: KeyedAction, lane: _Lane, _: asyncio.Task[None]) -> None:
        del self._running[action.key]
        if self._budget is not None and action.priority is not None:
            self._budget.end(action.priority)
        self._lane(lane).end(action)
        self._begin(lane)
        if action.key in self._missed:
            self._missed.discard(action.key)
            self._wake()

    def _succeeded(self, action: KeyedAction, again: float | None) -> None:
        if self._failures.pop(action.key, None) is not None:
            self._wake()  # a pass shows the trouble and has to remove it
        self._again.pop(action.key, None)
        if again is not None:
            self._again[action.key] = self._clock() + again
            self._wake_before(self._again[action.key])

    def _failed(self, action: KeyedAction, error: Exception) -> None:
        metrics.RECONCILE_ERRORS.labels(self._name).inc()
        failure = self._failures.setdefault(action.key, _Failure(Backoff(FIRST, LAST, self._rand)))
        asked = error.retry_after if isinstance(error, Unavailable) else 0.0
        temporary = isinstance(error, TimeoutError) or (isinstance(error, KubeError) and error.temporary)
        delay = min(failure.backoff.next(asked), LAST_TEMPORARY if temporary else LAST)
        sentence = explain(error)
        news = sentence != failure.sentence
        failure.due, failure.mark, failure.sentence = self._clock() + delay, action.mark, sentence
        failure.slow = isinstance(error, TimeoutError)
        unexpected = None if isinstance(error, KubeError | TimeoutError) else error
        log.warning("%s failed, trying again in %.0f s: %s", action.key, delay, sentence, exc_info=unexpected)
        if action.about is not None and news:
            self._events.event(action.about, "Warning", Reason.WRITE_FAILED, f"{action.key}: {sentence}")
        if news:
            self._wake()
        else:
            self._wake_before(failure.due)

    def _wake_before(self, time: float) -> None:
        if time < self._promised:
            self._wake()


def _log_fields(action: KeyedAction) -> dict[str, str]:
    """Return an action's fields of JSON log lines."""
    about = action.about
    if about is None:
        return {}
    kinds = {"Pod": "pod", "Dataset": "dataset"}
    named = {kinds[about.kind]: about.name} if about.kind in kinds else {}
    return {"uid": about.uid, "namespace": about.namespace, **named}


def explain(error: Exception) -> str:
    """Say what went wrong, for the owner of the object."""
    if isinstance(error, KubeError):
        return error.message
    if isinstance(error, TimeoutError):
        return f"the API server did not answer within {SECONDS:.0f} s"
    return f"please report this: {error!r}"

"""Decides when an ended child is restarted, and when a child without heartbeats is hung and killed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from stoker_sidecar.wire.heartbeat import HeartbeatLine

_FIRST_DELAY = 0.1
_TICK = 1.0


@dataclass(frozen=True)
class RestartPolicy:
    """The keeper's restart limits for one kind of child.

    A child that lived ``stable_after`` seconds has no history: its end counts as the first one. ``longest_delay`` is
    the maximum seconds between an end and the next start. The first ``at_once`` ends in a row are restarted without a
    delay. ``silence`` is the seconds without a heartbeat before a child that has sent one is killed.
    ``first_heartbeat`` is the seconds allowed for its first one. None: no limit. A child stopped by SIGSTOP is killed
    at once.
    """

    stable_after: float
    longest_delay: float
    at_once: int = 1
    from_ready: bool = False  # lifetime starts with the first heartbeat, not with the process
    silence: int | None = None
    first_heartbeat: int | None = None


# The agent: a minute-long outage of the API server must not make it spin. It may be busy for seconds (a garbage
# collection), and the kubelet's probe waits 60 s before it ends the whole container.
PATIENT = RestartPolicy(stable_after=10.0, longest_delay=10.0, at_once=3, silence=30)
# The fetcher: readers of missing bytes wait. It may be busy with a listing of millions. 10 forks of it and its workers
# cost half a second of CPU.
PROMPT = RestartPolicy(stable_after=0.2, longest_delay=5.0, at_once=10, from_ready=True, silence=30)
# FUSE servers: readers wait in the kernel. A killed server restarts at once, however often it happens. A server that
# dies of its first request, which the kernel resends to the next one, must not use up the CPU: 20 forks cost half a
# second of it. No step takes longer than a disk read, and being killed costs nothing, because the kernel resends
# requests.
QUICK = RestartPolicy(
    stable_after=0.05,
    longest_delay=5.0,
    at_once=20,
    from_ready=True,
    silence=5,
    first_heartbeat=20,
)


@dataclass(frozen=True)
class RestartHistory:
    """A child's restarts: ``restarts`` in total, ``in_a_row`` without a stable run in between."""

    restarts: int = 0
    in_a_row: int = 0


def after_end(history: RestartHistory, lived: float, policy: RestartPolicy) -> tuple[RestartHistory, float]:
    """Decide what follows the end of a child that lived ``lived`` seconds. Pure.

    Return its new history, and the seconds before its restart. The first restarts are immediate, then after 0.1 s,
    doubling up to the policy's longest delay.
    """
    if lived >= policy.stable_after:
        history = replace(history, in_a_row=0)
    slow = history.in_a_row - policy.at_once
    delay = 0.0 if slow < 0 else min(policy.longest_delay, _FIRST_DELAY * 2.0**slow)
    return RestartHistory(history.restarts + 1, history.in_a_row + 1), delay


@dataclass(frozen=True)
class Silence:
    """The time since a child's last heartbeat, in ticks of the keeper, one per second.

    Ticks instead of a clock: nothing is counted while the keeper, its container or the machine is stopped.
    """

    ticks: int = 0
    was_heard: bool = False

    def heard(self) -> "Silence":
        """Return the silence after a heartbeat: zero."""
        return Silence(0, was_heard=True)

    def tick(self) -> "Silence":
        """Return the silence one second later."""
        return replace(self, ticks=self.ticks + 1)

    def is_hung(self, policy: RestartPolicy) -> bool:
        """Return True if the silence exceeds the policy's limit."""
        limit = policy.silence if self.was_heard else policy.first_heartbeat
        return limit is not None and self.ticks > limit


class Watchdog:
    """Monitors the heartbeats of one running child, from ``begin`` to ``end``, on the running event loop.

    ``on_ready`` is called at the first heartbeat; ``on_hung`` at most once, when the policy's limit is exceeded.
    """

    def __init__(self, policy: RestartPolicy, on_ready: Callable[[], None], on_hung: Callable[[], None]) -> None:
        self.line = HeartbeatLine()
        self._policy = policy
        self._on_ready = on_ready
        self._on_hung = on_hung
        self._silence = Silence()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start monitoring: the child has inherited its end of the line."""
        self.line.close_child_end()
        loop = asyncio.get_running_loop()
        loop.add_reader(self.line.fileno(), self._heard)
        self._timer = loop.call_later(_TICK, self._tick)

    def _heard(self) -> None:
        if not self.line.heard():
            asyncio.get_running_loop().remove_reader(self.line.fileno())
            return
        first = not self._silence.was_heard
        self._silence = self._silence.heard()
        if first:
            self._on_ready()

    def _tick(self) -> None:
        self._silence = self._silence.tick()
        if self._silence.is_hung(self._policy):
            self._on_hung()
        else:
            self._timer = asyncio.get_running_loop().call_later(_TICK, self._tick)

    def end(self) -> None:
        """Stop monitoring, and close the line."""
        if self._timer is not None:
            self._timer.cancel()
        if self.line.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.line.fileno())
        self.line.close()

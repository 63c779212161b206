"""The waits of a data loader's consumer, from samples of its main thread's calls. Pure (ADR 29)."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from stoker_api.node_caches.node_workload import StallSource
from stoker_sidecar.agent.core.stall import Stall, StallSeconds
from stoker_sidecar.agent.observation.loaders.pipes import is_pipe
from stoker_sidecar.agent.observation.loaders.thread_calls import CallSeen, ThreadCall

# PyTorch's loader, its workers and its pinning thread poll each other's queues for 5 s at a time
# (MP_STATUS_CHECK_INTERVAL, unchanged since version 0.4). In practice the rest of such a poll is not shorter.
_CHECKS: Final = (4.0, 5.0)
# Custom timeouts of PyTorch's loader are whole seconds; GPU drivers poll for a tenth of one.
_TIMEOUT: Final = 1.0
# Above this share of ambiguous samples, there is no figure.
_MOST_DOUBT: Final = 0.05
# The figure covers the last minute, in spans of 5 s, and needs at least this number of samples.
SECONDS: Final = 60.0
_SPAN: Final = 5.0
FEWEST: Final = 48
# A sample represents the time since the previous one, up to this number of seconds.
_MOST_GAP: Final = 5.0


class ConsumerWait(Enum):
    """The observed state of a thread."""

    NONE = "none"  # it runs, sleeps in a call that is not for data, or in an unknown one
    QUEUE = "queue"  # it polls one descriptor for as long as PyTorch's loader does
    TIMED = "timed"  # it polls one descriptor, for seconds
    PIPE = "pipe"  # it reads from a pipe
    SOCKET = "socket"  # it reads from a socket as from a file, as Python's connections do
    LOCK = "lock"  # it waits for another thread, with a timeout
    JOIN = "join"  # it waits for another thread without a timeout
    FILE = "file"  # it opens or reads a file, or one of its pages


def wait_of(seen: CallSeen, target: str) -> ConsumerWait:
    """Classify a call. ``target`` is the file of its first argument, for a read."""
    match seen.call:
        case ThreadCall.FAULT | ThreadCall.OPEN:
            return ConsumerWait.FILE
        case ThreadCall.READ if is_pipe(target):
            return ConsumerWait.PIPE
        case ThreadCall.READ if target.startswith("socket:"):
            return ConsumerWait.SOCKET
        case ThreadCall.READ if target.startswith("/") and not target.startswith(("/dev/", "/proc/", "/sys/")):
            return ConsumerWait.FILE
        case ThreadCall.LOCK:
            return ConsumerWait.LOCK if seen.bounded else ConsumerWait.JOIN
        case ThreadCall.POLL if seen.polled == 1 and seen.bounded:
            return _polls(seen.seconds)
        case _:
            return ConsumerWait.NONE


def _polls(seconds: float | None) -> ConsumerWait:
    if seconds is None or _CHECKS[0] < seconds <= _CHECKS[1]:  # ppoll does not show its timeout
        return ConsumerWait.QUEUE
    return ConsumerWait.TIMED if seconds >= _TIMEOUT else ConsumerWait.NONE


@dataclass
class LoaderStyle:
    """How a consumer and its workers wait for each other, which identifies a loader.

    ``checks``: some of them poll as PyTorch's loader does. ``pins``: a second thread of the consumer polls, and passes
    the data to its main thread. ``idles``: a worker was seen waiting for work. ``reads``: the consumer's main thread
    reads from the pipe that its workers write to.
    """

    checks: bool = False
    pins: bool = False
    idles: bool = False
    reads: bool = False

    @property
    def is_known(self) -> bool:
        """True for a loader with detectable waits."""
        return self.checks or self.reads

    def waits(self, seen: Counter[ConsumerWait]) -> int:
        """Return the number of samples that are waits for data."""
        waits = seen[ConsumerWait.QUEUE] + seen[ConsumerWait.PIPE] + seen[ConsumerWait.FILE]
        handed = seen[ConsumerWait.SOCKET] if self.checks else 0  # PyTorch's workers pass shared memory over sockets
        return waits + handed + (seen[ConsumerWait.LOCK] if self.pins else 0)

    def doubts(self, seen: Counter[ConsumerWait]) -> int:
        """Return the number of samples that may be waits for data.

        A poll with another timeout is PyTorch's loader with a custom timeout, or a network connection. A thread that is
        joined without a timeout computes gradients, or passes data in a custom way. The latter is possible only if the
        loader's normal way is never seen, and its workers are never idle.
        """
        joins = 0 if not self.pins or self.idles or seen[ConsumerWait.LOCK] else seen[ConsumerWait.JOIN]
        return seen[ConsumerWait.TIMED] + joins


@dataclass
class LoaderTally:
    """Recent counts of a consumer's states. Not thread-safe. All seconds are of the monotonic clock."""

    style: LoaderStyle = field(default_factory=LoaderStyle)
    _spans: "deque[tuple[float, Counter[ConsumerWait]]]" = field(default_factory=deque)
    _spent: Counter[ConsumerWait] = field(default_factory=Counter)  # milliseconds since the first sample
    _last: float | None = None

    def add(self, wait: ConsumerWait, now: float) -> None:
        """Count a sample."""
        if self._last is not None:
            self._spent[wait] += round(1000 * min(_MOST_GAP, now - self._last))
        self._last = now
        self.style.checks |= wait is ConsumerWait.QUEUE
        if not self._spans or now - self._spans[-1][0] >= _SPAN:
            self._spans.append((now, Counter()))
        self._spans[-1][1][wait] += 1

    def lately(self, now: float) -> Counter[ConsumerWait]:
        """Return the counts of the last minute by state, and forget older ones."""
        while self._spans and now - self._spans[0][0] > SECONDS:
            self._spans.popleft()
        return sum((counts for _, counts in self._spans), Counter[ConsumerWait]())

    def so_far(self) -> StallSeconds:
        """Return the waits since the first sample; none while they are ambiguous."""
        whole = self._spent.total()
        if not self.style.is_known or self.style.doubts(self._spent) > _MOST_DOUBT * whole:
            return StallSeconds()
        return StallSeconds(self.style.waits(self._spent) / 1000, whole / 1000)


def stall_of(tallies: Iterable[LoaderTally], now: float) -> Stall | None:
    """Return the stall of a pod with these consumers together; None with too few samples.

    Each sample is of a random consumer, so that all consumers have the same weight.
    """
    known = [(one.style, one.lately(now)) for one in tallies if one.style.is_known]
    samples = sum(counts.total() for _, counts in known)
    doubts = sum(style.doubts(counts) for style, counts in known)
    if samples < FEWEST or doubts > _MOST_DOUBT * samples:
        return None
    return Stall(sum(style.waits(counts) for style, counts in known) / samples, StallSource.CONSUMER)

"""What the consumer of a data loader waits for, from samples of what its main thread sleeps in. Pure (ADR 62)."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from stoker_api.node_workload import StallSource
from stoker_sidecar.agent.core.stall import Stall
from stoker_sidecar.linux.pipes import is_pipe
from stoker_sidecar.linux.thread_calls import CallSeen, ThreadCall

# PyTorch's loader, its workers and its pinning thread look at each other's queues for 5 s at a time
# (MP_STATUS_CHECK_INTERVAL, the same since version 0.4); the rest of such a look is no shorter in practice.
_CHECKS: Final = (4.0, 5.0)
# Who asked PyTorch's loader for another timeout gave whole seconds; the drivers of GPUs poll for a tenth of one.
_TIMEOUT: Final = 1.0
# Above this share of samples that may be one or the other, there is no figure.
_MOST_DOUBT: Final = 0.05
# The figure is of the last minute, in spans of 5 s, and there is none of fewer samples than these.
SECONDS: Final = 60.0
_SPAN: Final = 5.0
FEWEST: Final = 48


class ConsumerWait(Enum):
    """What a thread was seen in."""

    NONE = "none"  # it runs, or sleeps in something that is known not to be data, or in what is not known
    QUEUE = "queue"  # it polls one descriptor for as long as PyTorch's loader does
    TIMED = "timed"  # it polls one descriptor, for seconds
    PIPE = "pipe"  # it reads from a pipe
    SOCKET = "socket"  # it reads from a socket as from a file, which Python's connections do
    LOCK = "lock"  # it waits for another thread, and will give up at some time
    JOIN = "join"  # it waits for another thread without end
    FILE = "file"  # it opens or reads a file, or a page of it


def wait_of(seen: CallSeen, target: str) -> ConsumerWait:
    """Tell what a call is. ``target``: what its first argument is as a descriptor, if it is a read."""
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
    if seconds is None or _CHECKS[0] < seconds <= _CHECKS[1]:  # ppoll does not show for how long
        return ConsumerWait.QUEUE
    return ConsumerWait.TIMED if seconds >= _TIMEOUT else ConsumerWait.NONE


@dataclass
class LoaderStyle:
    """How a consumer and its workers were seen to wait for each other, which is what shows that they are a loader.

    ``checks``: some of them poll as PyTorch's loader does. ``pins``: a thread beside the consumer's main one does, and
    hands the data over to it. ``idles``: a worker was seen to wait for work. ``reads``: the consumer's main thread
    reads from the pipe that its workers write to.
    """

    checks: bool = False
    pins: bool = False
    idles: bool = False
    reads: bool = False

    @property
    def is_known(self) -> bool:
        """Whether it is a loader whose waits can be told."""
        return self.checks or self.reads

    def waits(self, seen: Counter[ConsumerWait]) -> int:
        """Return how many of these samples of a consumer are waits for data."""
        waits = seen[ConsumerWait.QUEUE] + seen[ConsumerWait.PIPE] + seen[ConsumerWait.FILE]
        handed = seen[ConsumerWait.SOCKET] if self.checks else 0  # PyTorch's workers hand memory over by sockets
        return waits + handed + (seen[ConsumerWait.LOCK] if self.pins else 0)

    def doubts(self, seen: Counter[ConsumerWait]) -> int:
        """Return how many may be waits for data, or not.

        A poll for other seconds is PyTorch's loader with a timeout of its own, or a connection. A thread that is waited
        for without end computes gradients, or hands over data in its own way; the latter can only be where the loader's
        own way is never seen, and its workers never are without work.
        """
        joins = 0 if not self.pins or self.idles or seen[ConsumerWait.LOCK] else seen[ConsumerWait.JOIN]
        return seen[ConsumerWait.TIMED] + joins


@dataclass
class LoaderTally:
    """How often a consumer was seen in what, lately. Not for threads. All seconds are of the monotonic clock."""

    style: LoaderStyle = field(default_factory=LoaderStyle)
    _spans: "deque[tuple[float, Counter[ConsumerWait]]]" = field(default_factory=deque)

    def add(self, wait: ConsumerWait, now: float) -> None:
        """Count a sample."""
        self.style.checks |= wait is ConsumerWait.QUEUE
        if not self._spans or now - self._spans[-1][0] >= _SPAN:
            self._spans.append((now, Counter()))
        self._spans[-1][1][wait] += 1

    def lately(self, now: float) -> Counter[ConsumerWait]:
        """Return what was counted in the last minute, by what it was; forgets what is older."""
        while self._spans and now - self._spans[0][0] > SECONDS:
            self._spans.popleft()
        return sum((counts for _, counts in self._spans), Counter[ConsumerWait]())


def stall_of(tallies: Iterable[LoaderTally], now: float) -> Stall | None:
    """Return the stall of a pod with these consumers, all together; None where too little is known.

    A sample is of one of them by chance, so that each one's share of the time counts the same.
    """
    known = [(one.style, one.lately(now)) for one in tallies if one.style.is_known]
    samples = sum(counts.total() for _, counts in known)
    doubts = sum(style.doubts(counts) for style, counts in known)
    if samples < FEWEST or doubts > _MOST_DOUBT * samples:
        return None
    return Stall(sum(style.waits(counts) for style, counts in known) / samples, StallSource.CONSUMER)

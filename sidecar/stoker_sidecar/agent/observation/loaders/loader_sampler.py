"""Samples, in a separate thread, the waits of data loader consumers: the stall of loaders with workers."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker_sidecar.agent.core.stall import Stall, StallSeconds
from stoker_sidecar.agent.observation.loaders.loader_consumers import PodConsumers
from stoker_sidecar.agent.observation.loaders.loader_waits import stall_of


@dataclass
class CpuCredit:
    """A CPU budget: ``rate`` seconds of a core per second, of which ``most`` seconds can be saved."""

    rate: float
    most: float
    left: float = 0.0

    def rest(self, passed: float, spent: float) -> float:
        """Record passed seconds and spent CPU seconds. Return the time to rest now."""
        self.left = min(self.most, self.left + passed * self.rate) - spent
        return max(0.0, -self.left / self.rate)


log = logging.getLogger(__name__)
# Looks at each pod per second, each at a random moment within its slot, to avoid aliasing with a program's rhythm.
# Fewer if they would exceed this share of a core.
RATE = 8.0
BUDGET = 0.003
_LONGEST = 2.0  # maximum seconds between two looks; fewer looks carry little information
_SAVED, _FIRST = 0.05, 0.02  # seconds of a core: maximum savings, and the initial budget
_LOOKS = 16  # between two updates of the stalls
# A look takes microseconds. After this many seconds the pod's process blocks it (an old kernel, and a program that
# never finishes an exec). Its thread is abandoned, up to this number of times.
_HUNG, _MOST_LOST = 5.0, 4

Readers = Mapping[str, Sequence[int]]


class LoaderSampler:
    """Samples the consumers of pods' loaders. It costs nothing while no pod has one.

    ``rate`` is looks at each pod per second; ``budget`` is their maximum share of a core. ``clock`` is monotonic, in
    seconds, and detects a hanging thread. ``pods`` creates the sampler of a pod's processes.
    """

    def __init__(
        self,
        rate: float = RATE,
        budget: float = BUDGET,
        clock: Callable[[], float] = time.monotonic,
        pods: Callable[[str], PodConsumers] = PodConsumers,
    ) -> None:
        self._rate = rate
        self._budget = budget
        self._clock = clock
        self._make = pods
        self._sampling: _Sampling | None = None
        self._shunned: set[str] = set()

    @property
    def stalls(self) -> Mapping[str, Stall]:
        """The stall of the last minute by UID of the pod, where loader consumers show it."""
        return self._sampling.stalls if self._sampling is not None else {}

    @property
    def seconds(self) -> Mapping[str, StallSeconds]:
        """The waits of loader consumers so far, by UID of the pod."""
        return self._sampling.seconds if self._sampling is not None else {}

    def watch(self, readers: Readers) -> None:
        """Start sampling the consumers of these reading processes, by UID of their pod. Never blocks."""
        self._give_up_what_hangs()
        pods = {uid: pids for uid, pids in readers.items() if uid not in self._shunned}
        if self._sampling is None and any(pods.values()) and len(self._shunned) < _MOST_LOST:
            self._sampling = _Sampling(self._rate, CpuCredit(self._budget, _SAVED, left=_FIRST), self._make)
            threading.Thread(target=self._sampling.run, name="loader-sampler", daemon=True).start()
        if self._sampling is not None:
            self._sampling.tell(pods)

    def stop(self) -> None:
        """Stop sampling. Never blocks; a running look finishes."""
        if self._sampling is not None:
            self._sampling.end()
            self._sampling = None

    def _give_up_what_hangs(self) -> None:
        busy = self._sampling.busy if self._sampling is not None else None
        if busy is not None and self._clock() - busy[0] > _HUNG:
            log.warning("pod %s blocks the sampling of its processes: its loaders are no longer sampled", busy[1])
            self._shunned.add(busy[1])
            self.stop()


class _Sampling:
    """One sampling thread. Other threads call ``tell`` and ``end``, and read ``stalls`` and ``busy``, without blocking.

    ``busy`` is the start (seconds of the monotonic clock) and the pod of the current look.
    """

    def __init__(self, rate: float, credit: CpuCredit, make: Callable[[str], PodConsumers]) -> None:
        self._slot = 1.0 / rate
        self._credit = credit
        self._make = make
        self._news: Readers = {}
        self._known: Readers = {}
        self._wake = threading.Event()
        self._ended = False
        self._pods: dict[str, PodConsumers] = {}
        self._viewed = self._seen = self._part = time.monotonic()
        self._spent = 0.0
        self.stalls: Mapping[str, Stall] = {}
        self.seconds: Mapping[str, StallSeconds] = {}
        self.busy: tuple[float, str] | None = None

    def tell(self, readers: Readers) -> None:
        """Set the current readers. Pass a new object each time, even for equal content."""
        self._news = readers
        self._wake.set()

    def end(self) -> None:
        """Let the thread end."""
        self._ended = True
        self._wake.set()

    def run(self) -> None:
        """Sample until the end; sleep while there is no consumer."""
        while not self._ended:
            self._wake.clear()
            self._find()
            if any(self._pods.values()):
                time.sleep(self._pause())  # half the cost of waiting for an event
                self._sample()
            else:
                self._view()
                self._wake.wait()
        for pod in self._pods.values():
            pod.close()

    def _pause(self) -> float:
        """Return the time until the next look, which is at a random moment in its slot."""
        now, spent = time.monotonic(), time.thread_time()
        rest = self._credit.rest(now - self._seen, spent - self._spent)
        self._seen, self._spent = now, spent
        begun, length = max(self._part, now), min(_LONGEST, max(self._slot, rest))
        self._part = begun + length
        return begun + random.random() * length - now

    def _find(self) -> None:
        news, now = self._news, time.monotonic()
        if news is self._known:
            return
        for uid in self._pods.keys() - news.keys():
            self._pods.pop(uid).close()
        for uid, readers in news.items():
            self.busy = now, uid
            self._pods.setdefault(uid, self._make(uid)).find(readers, now)
        self.busy, self._known = None, news

    def _sample(self) -> None:
        now = time.monotonic()
        for uid, pod in self._pods.items():
            self.busy = now, uid
            pod.sample(now)
        self.busy = None
        if now - self._viewed >= _LOOKS * self._slot:
            self._view()

    def _view(self) -> None:
        self._viewed = now = time.monotonic()
        stalls = {uid: stall_of(pod.tallies, now) for uid, pod in self._pods.items()}
        self.stalls = {uid: stall for uid, stall in stalls.items() if stall is not None}
        seconds = {uid: pod.seconds() for uid, pod in self._pods.items()}
        self.seconds = {uid: one for uid, one in seconds.items() if one.watched}

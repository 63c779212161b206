"""Samples, in a thread of its own, what consumers of data loaders wait for: the stall of loaders with workers."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from stoker_sidecar.agent.core.cpu_credit import CpuCredit
from stoker_sidecar.agent.core.loader_waits import stall_of
from stoker_sidecar.agent.core.stall import Stall
from stoker_sidecar.agent.loader_consumers import PodConsumers

log = logging.getLogger(__name__)
# Looks at each pod a second, each at a moment of chance within its part of the second, so that no rhythm of a
# program is met always at the same beat; fewer where they would cost more than this share of a core.
RATE = 8.0
BUDGET = 0.003
_LONGEST = 2.0  # seconds between two looks, which tell little where they are fewer
_SAVED, _FIRST = 0.05, 0.02  # seconds of a core: what can be saved, and what there is at the start
_LOOKS = 16  # from one view of the stalls to the next
# A look takes microseconds. After so many seconds the pod's process holds it up (an old kernel, and a program that
# never ends starting another); its thread is given up, so many times at the most.
_HUNG, _MOST_LOST = 5.0, 4

Readers = Mapping[str, Sequence[int]]


class LoaderSampler:
    """Samples the consumers of the loaders of pods. It costs nothing while no pod has any.

    ``rate``: looks at each pod a second; ``budget``: the share of a core that they may cost. ``clock``: the monotonic
    one, in seconds, by which a thread that hangs is known. ``pods``: makes what looks at a pod's processes.
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
        """The stall of the last minute by UID of the pod, where consumers of loaders tell it."""
        return self._sampling.stalls if self._sampling is not None else {}

    def watch(self, readers: Readers) -> None:
        """From now on, sample the consumers of what these processes, by UID of their pod, read. Blocks never."""
        self._give_up_what_hangs()
        pods = {uid: pids for uid, pids in readers.items() if uid not in self._shunned}
        if self._sampling is None and any(pods.values()) and len(self._shunned) < _MOST_LOST:
            self._sampling = _Sampling(self._rate, CpuCredit(self._budget, _SAVED, left=_FIRST), self._make)
            threading.Thread(target=self._sampling.run, name="loader-sampler", daemon=True).start()
        if self._sampling is not None:
            self._sampling.tell(pods)

    def stop(self) -> None:
        """Sample no more. Blocks never; a look that is under way comes to its end."""
        if self._sampling is not None:
            self._sampling.end()
            self._sampling = None

    def _give_up_what_hangs(self) -> None:
        busy = self._sampling.busy if self._sampling is not None else None
        if busy is not None and self._clock() - busy[0] > _HUNG:
            log.warning("pod %s holds up who looks at its processes: its loaders are looked at no more", busy[1])
            self._shunned.add(busy[1])
            self.stop()


class _Sampling:
    """One thread's work. Others call ``tell`` and ``end``, and read ``stalls`` and ``busy``: none of them blocks.

    ``busy``: since when (seconds of the monotonic clock) it looks at which pod.
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
        self.busy: tuple[float, str] | None = None

    def tell(self, readers: Readers) -> None:
        """Say who reads now: another object each time, also where it says the same."""
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
                time.sleep(self._pause())  # half of what it costs to wait for an event
                self._sample()
            else:
                self._view()
                self._wake.wait()
        for pod in self._pods.values():
            pod.close()

    def _pause(self) -> float:
        """Return how long to wait for the next look, which is one at a moment of chance in its part of the time."""
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

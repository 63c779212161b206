"""Samples, in a thread of its own, what consumers of data loaders wait for: the stall of loaders with workers."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
_SAVED = 0.05  # seconds of a core: looking for the consumers of ten pods takes most of them
# Seconds between two views of the stalls.
_VIEW = 2.0
# A look takes microseconds. After so many seconds the pod's process holds it up (an old kernel, and a program that
# never ends starting another); its thread is given up, so many times at the most.
_HUNG, _MOST_LOST = 5.0, 4


@dataclass(frozen=True)
class LoaderReaders:
    """Who reads: processes by the UID of their pod. Another object for each look, also where it says the same."""

    pods: Mapping[str, Sequence[int]]


@dataclass
class _Sampling:
    """One thread's work, which nobody else touches but for what is said here.

    ``news``: who reads now; it is set by others, who then set ``wake``. ``stalls``: read by others. ``busy``: since when
    (seconds of the monotonic clock) it looks at which pod.
    """

    wake: threading.Event = field(default_factory=threading.Event)
    rate: float = RATE
    budget: float = BUDGET
    ended: bool = False
    news: LoaderReaders | None = None
    stalls: Mapping[str, Stall] = field(default_factory=dict)
    busy: tuple[float, str] | None = None
    _pods: dict[str, PodConsumers] = field(default_factory=dict)
    _known: LoaderReaders | None = None
    _viewed: float = 0.0
    _then: float = field(default_factory=time.monotonic)
    _spent: float = 0.0
    _part: float = 0.0

    def __post_init__(self) -> None:
        self._credit = CpuCredit(self.budget, _SAVED)

    def run(self) -> None:
        """Sample until ``ended`` is set; sleep while there is no consumer."""
        while not self.ended:
            self.wake.clear()
            self._find()
            if not any(self._pods.values()):
                self.wake.wait()
                continue
            time.sleep(self._pause())  # half of what it costs to wait for an event
            self._sample()
        for pod in self._pods.values():
            pod.close()

    def _pause(self) -> float:
        """Return how long to wait for the next look, which is one at a moment of chance in its part of the time."""
        now, cost = time.monotonic(), time.thread_time()
        rest = self._credit.rest(now - self._then, cost - self._spent)
        self._then, self._spent = now, cost
        length = min(_LONGEST, max(1.0 / self.rate, rest))
        self._part, begun = max(self._part, now) + length, max(self._part, now)
        return begun + random.random() * length - now  # noqa: S311 -- a sample, no secret

    def _find(self) -> None:
        news, now = self.news, time.monotonic()
        if news is None or news is self._known:
            return
        for uid in self._pods.keys() - news.pods.keys():
            self._pods.pop(uid).close()
        for uid, readers in news.pods.items():
            self.busy = time.monotonic(), uid
            self._pods.setdefault(uid, PodConsumers(uid)).find(readers, now)
        self.busy = None
        self._known = news

    def _sample(self) -> None:
        now = time.monotonic()
        for uid, pod in self._pods.items():
            self.busy = now, uid
            pod.sample(now)
        self.busy = None
        if now - self._viewed >= _VIEW:
            self._viewed = now
            stalls = {uid: stall_of(pod.tallies, now) for uid, pod in self._pods.items()}
            self.stalls = {uid: stall for uid, stall in stalls.items() if stall is not None}


class LoaderSampler:
    """Samples the consumers of the loaders of pods. It costs nothing while no pod has any.

    ``rate``: looks at each pod a second; ``budget``: the share of a core that they may cost. ``clock``: the monotonic
    one, in seconds, by which a thread that hangs is known.
    """

    def __init__(self, rate: float = RATE, budget: float = BUDGET, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._budget = budget
        self._clock = clock
        self._sampling: _Sampling | None = None
        self._shunned: set[str] = set()

    @property
    def stalls(self) -> Mapping[str, Stall]:
        """The stall of the last minute by UID of the pod, where consumers of loaders tell it."""
        return self._sampling.stalls if self._sampling is not None else {}

    def watch(self, readers: Mapping[str, Sequence[int]]) -> None:
        """Sample the consumers of what these processes, by UID of their pod, read; and of no other pod. Blocks never."""
        self._give_up_what_hangs()
        if self._sampling is None and any(readers.values()):
            self._begin()
        if self._sampling is not None:
            self._sampling.news = LoaderReaders(
                {uid: pids for uid, pids in readers.items() if uid not in self._shunned}
            )
            self._sampling.wake.set()

    def stop(self) -> None:
        """Sample no more. Blocks never; a look that is under way comes to its end."""
        if self._sampling is not None:
            self._sampling.ended = True
            self._sampling.wake.set()
            self._sampling = None

    def _begin(self) -> None:
        if len(self._shunned) < _MOST_LOST:
            self._sampling = _Sampling(self._rate, self._budget)
            threading.Thread(target=self._sampling.run, name="loader-sampler", daemon=True).start()

    def _give_up_what_hangs(self) -> None:
        busy = self._sampling.busy if self._sampling is not None else None
        if busy is not None and self._clock() - busy[0] > _HUNG:
            log.warning("pod %s holds up who looks at its processes: its loaders are looked at no more", busy[1])
            self._shunned.add(busy[1])
            self.stop()

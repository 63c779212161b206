"""The processes that consume what the worker processes of data loaders read, and what they are seen to sleep in."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from stoker_sidecar.agent.core.loader_waits import ConsumerWait, LoaderTally, wait_of
from stoker_sidecar.linux.pipes import PipeEnds, descriptor, pipes_of, queues_between
from stoker_sidecar.linux.pod_mounts import belongs_to
from stoker_sidecar.linux.processes import cgroups_of, parent_of
from stoker_sidecar.linux.thread_calls import CallSeen, ThreadCall, WatchedThread, look_once, threads_of

# Of a pod: consumers that are looked at, and readers whose consumer is looked for.
_MOST_CONSUMERS, _MOST_READERS = 8, 32
# Of a consumer: workers and threads that are looked at in a round.
_MOST_WORKERS, _MOST_THREADS = 8, 256
# From a reader up: its parent; that one's, where a server forks the workers; and one more.
_ANCESTORS = 3


@dataclass
class LoaderConsumer:
    """A process whose workers read a Dataset. ``queues``: pipes by which they hand it data; ``workers``: their pids."""

    main: WatchedThread
    queues: frozenset[str]
    workers: tuple[int, ...] = ()
    tally: LoaderTally = field(default_factory=LoaderTally)

    def sample(self, now: float) -> None:
        """Count what it does at this moment. Raises OSError when it is gone."""
        seen = self.main.look()
        wait, target = _wait(self.main.pid, seen)
        self.tally.style.reads |= wait is ConsumerWait.PIPE and target in self.queues
        self.tally.add(wait, now)

    def look_around(self, now: float) -> None:
        """Find out how it and its workers wait for each other. Takes a millisecond. Raises OSError when it is gone."""
        style = self.tally.style
        if any(_polls(worker, worker) for worker in self.workers[:_MOST_WORKERS]):
            style.checks = style.idles = True
        if not style.pins and (not style.is_known or self.tally.lately(now)[ConsumerWait.LOCK]):
            threads = threads_of(self.main.pid, _MOST_THREADS)
            style.pins = any(_polls(self.main.pid, thread) for thread in threads[1:])
            style.checks |= style.pins


class PodConsumers:
    """The consumers of one pod's loaders. Not for threads."""

    def __init__(self, pod_uid: str) -> None:
        self._pod = pod_uid
        self._consumers: dict[int, LoaderConsumer] = {}

    def __len__(self) -> int:
        return len(self._consumers)

    @property
    def tallies(self) -> list[LoaderTally]:
        """What was counted of each."""
        return [one.tally for one in self._consumers.values()]

    def find(self, readers: Sequence[int], now: float) -> None:
        """Look for the consumers of these processes, which read; forget who is gone. Takes some milliseconds."""
        found = dict[int, tuple[frozenset[str], list[int]]]()
        for reader, consumer, queues in self._pairs(readers[:_MOST_READERS]):
            found.setdefault(consumer, (queues, []))[1].append(reader)
        for pid, (queues, workers) in found.items():
            # A process that consumes what its own workers read is nobody's worker, though it reads too.
            self._note(pid, queues, [worker for worker in workers if worker not in found])
        for pid, one in list(self._consumers.items()):
            try:
                one.look_around(now)
            except OSError:
                self._forget(pid)

    def sample(self, now: float) -> None:
        """Count what one of them, by chance, does at this moment."""
        if self._consumers:
            one = random.choice(list(self._consumers.values()))
            try:
                one.sample(now)
            except OSError:
                self._forget(one.main.pid)

    def close(self) -> None:
        """Forget all of them."""
        for pid in list(self._consumers):
            self._forget(pid)

    def _note(self, pid: int, queues: frozenset[str], workers: list[int]) -> None:
        known = self._consumers.get(pid)
        if known is None and workers and len(self._consumers) < _MOST_CONSUMERS:
            with suppress(OSError):
                known = self._consumers[pid] = LoaderConsumer(WatchedThread(pid, pid), queues)
        if known is not None:
            known.queues, known.workers = known.queues | queues, tuple(workers)

    def _forget(self, pid: int) -> None:
        self._consumers.pop(pid).main.close()

    def _pairs(self, readers: Iterable[int]) -> Iterator[tuple[int, int, frozenset[str]]]:
        """Yield readers with the nearest ancestor in their pod that they can hand data to, and by which pipes."""
        pipes = dict[int, Mapping[str, PipeEnds]]()
        for reader in readers:
            for ancestor in self._ancestors(reader):
                if queues := queues_between(_pipes(reader, pipes), _pipes(ancestor, pipes)):
                    yield reader, ancestor, queues
                    break

    def _ancestors(self, pid: int) -> Iterator[int]:
        for _ in range(_ANCESTORS):
            pid = parent_of(pid)
            if pid <= 1 or not belongs_to(cgroups_of(pid), self._pod):
                return
            yield pid


def _pipes(pid: int, known: dict[int, Mapping[str, PipeEnds]]) -> Mapping[str, PipeEnds]:
    if pid not in known:
        known[pid] = {}
        with suppress(OSError):
            known[pid] = pipes_of(pid)
    return known[pid]


def _wait(pid: int, seen: CallSeen) -> tuple[ConsumerWait, str]:
    target = descriptor(pid, seen.first) if seen.call is ThreadCall.READ else ""
    return wait_of(seen, target), target


def _polls(pid: int, thread: int) -> bool:
    """Tell whether a thread waits as PyTorch's loader does; no when it is gone."""
    try:
        return wait_of(look_once(pid, thread), "") is ConsumerWait.QUEUE
    except OSError:
        return False

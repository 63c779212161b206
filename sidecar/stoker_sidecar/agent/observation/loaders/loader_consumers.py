"""The consumers of data loader workers, and the calls they sleep in."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from stoker_sidecar.agent.core.stall import StallSeconds
from stoker_sidecar.agent.observation.loaders.loader_waits import ConsumerWait, LoaderTally, wait_of
from stoker_sidecar.agent.observation.loaders.pipes import PipeEnds, descriptor, pipes_of, queues_between
from stoker_sidecar.agent.observation.loaders.thread_calls import (
    CallSeen,
    ThreadCall,
    WatchedThread,
    look_once,
    threads_of,
)
from stoker_sidecar.agent.observation.readers import cgroups_of, parent_of
from stoker_sidecar.linux.mounts.pod_mounts import belongs_to

# Per pod: consumers to watch, and readers whose consumer is searched.
_MOST_CONSUMERS, _MOST_READERS = 8, 32
# Per consumer: workers and threads to check in a round.
_MOST_WORKERS, _MOST_THREADS = 8, 256
# Ancestors of a reader to check: its parent, the grandparent where a server forks the workers, and one more.
_ANCESTORS = 3


@dataclass
class LoaderConsumer:
    """A process whose workers read a Dataset. ``queues`` are pipes from the workers; ``workers`` are their pids."""

    main: WatchedThread
    queues: frozenset[str]
    workers: tuple[int, ...] = ()
    tally: LoaderTally = field(default_factory=LoaderTally)

    def sample(self, now: float) -> None:
        """Count its current call. Raises OSError if it is gone."""
        seen = self.main.look()
        wait, target = _wait(self.main.pid, seen)
        self.tally.style.reads |= wait is ConsumerWait.PIPE and target in self.queues
        self.tally.add(wait, now)

    def look_around(self, now: float) -> None:
        """Detect how it and its workers wait for each other. Takes a millisecond. Raises OSError if it is gone."""
        style = self.tally.style
        if any(_polls(worker, worker) for worker in self.workers[:_MOST_WORKERS]):
            style.checks = style.idles = True
        if not style.pins and (not style.is_known or self.tally.lately(now)[ConsumerWait.LOCK]):
            threads = threads_of(self.main.pid, _MOST_THREADS)
            style.pins = any(_polls(self.main.pid, thread) for thread in threads[1:])
            style.checks |= style.pins


class PodConsumers:
    """The consumers of one pod's loaders. Not thread-safe."""

    def __init__(self, pod_uid: str) -> None:
        self._pod = pod_uid
        self._consumers: dict[int, LoaderConsumer] = {}
        self._gone = StallSeconds()
        self._told = StallSeconds()

    def __len__(self) -> int:
        return len(self._consumers)

    @property
    def tallies(self) -> list[LoaderTally]:
        """The tally of each consumer."""
        return [one.tally for one in self._consumers.values()]

    def seconds(self) -> StallSeconds:
        """Return the waits of its consumers so far, including ended ones. The result never decreases."""
        there = [tally.so_far() for tally in self.tallies]
        waited = self._gone.waited + sum(one.waited for one in there)
        watched = self._gone.watched + sum(one.watched for one in there)
        parts = max(self._told.parts, sum(one.watched > 0 for one in there))
        self._told = StallSeconds(max(waited, self._told.waited), max(watched, self._told.watched), parts)
        return self._told

    def find(self, readers: Sequence[int], now: float) -> None:
        """Search the consumers of these reading processes, and forget ended ones. Takes some milliseconds."""
        found = dict[int, tuple[frozenset[str], list[int]]]()
        for reader, consumer, queues in self._pairs(readers[:_MOST_READERS]):
            found.setdefault(consumer, (queues, []))[1].append(reader)
        for pid, (queues, workers) in found.items():
            # A process that consumes its workers' data is not a worker, even if it reads.
            self._note(pid, queues, [worker for worker in workers if worker not in found])
        for pid, one in list(self._consumers.items()):
            try:
                one.look_around(now)
            except OSError:
                self._forget(pid)

    def sample(self, now: float) -> None:
        """Count the current call of one random consumer."""
        if self._consumers:
            one = random.choice(list(self._consumers.values()))
            try:
                one.sample(now)
            except OSError:
                self._forget(one.main.pid)

    def close(self) -> None:
        """Forget all consumers."""
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
        one = self._consumers.pop(pid)
        counted = one.tally.so_far()
        self._gone = StallSeconds(self._gone.waited + counted.waited, self._gone.watched + counted.watched)
        one.main.close()

    def _pairs(self, readers: Iterable[int]) -> Iterator[tuple[int, int, frozenset[str]]]:
        """Yield readers with their nearest ancestor in the pod that shares pipes with them, and these pipes."""
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
    """Return True if a thread waits as PyTorch's loader does; False if it is gone."""
    try:
        return wait_of(look_once(pid, thread), "") is ConsumerWait.QUEUE
    except OSError:
        return False

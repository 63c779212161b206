"""The cost of a cold epoch of small files: files per second and CPU per file, with and without readers.

Each case starts with an empty node. The CPU of a process includes its ended children, such as the agent's program that
builds the metadata layer.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bench.environment import Environment
from bench.measure import cpu_seconds, drop_page_cache, take_memory
from bench.node import Node, Volume
from bench.readers import read_jobs
from bench.report import Row
from bench.sampled import dealt, epoch_order, sampling
from bench.scale import Corpus
from bench.systems import NOBODY_READS, ORDER_KNOWN, S5CMD, STOKER, cold_mount

_READERS, _SEED = 4, 7


@dataclass(frozen=True)
class _ColdRun:
    """One run: files per second, and milliseconds of CPU per file by kind of process."""

    rate: float
    cpu: dict[str, float]

    @property
    def total_cpu(self) -> float:
        """Milliseconds of CPU per file, of all processes."""
        return sum(self.cpu.values())


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each size of file."""
    for corpus in env.scale.cold:
        case = f"{corpus.size >> 10} KiB, {_READERS} readers"
        with env.corpus("cold", corpus) as prefix, env.profile("P0") as endpoint:
            runs = {
                S5CMD: partial(_copy, env, corpus, prefix, endpoint),
                STOKER: partial(_read, env, corpus, prefix, endpoint, STOKER),
                ORDER_KNOWN: partial(_read, env, corpus, prefix, endpoint, ORDER_KNOWN),
                NOBODY_READS: partial(_read, env, corpus, prefix, endpoint, NOBODY_READS),
            }
            found = env.in_turns(f"cold: {case}", runs)
        for system, mine in found.items():
            yield from _rows(case, system, mine)


def _rows(case: str, system: str, runs: list[_ColdRun]) -> Iterator[Row]:
    """Yield the figures of a system. The note has each process's share of the median run."""
    middle = sorted(runs, key=lambda run: run.total_cpu)[len(runs) // 2]
    note = ", ".join(f"{name} {ms:.2f}" for name, ms in middle.cpu.items()) if len(middle.cpu) > 1 else ""
    yield Row("cold", case, system, "files/s", tuple(run.rate for run in runs), S5CMD)
    yield Row("cold", case, system, "ms of CPU a file", tuple(run.total_cpu for run in runs), S5CMD, note)


def _copy(env: Environment, corpus: Corpus, prefix: str, endpoint: str) -> _ColdRun:
    copy, _ = env.copied(prefix, endpoint, corpus.total_bytes)
    return _ColdRun(corpus.files / copy.seconds, {S5CMD: 1000 * copy.cpu / corpus.files})


def _read(env: Environment, corpus: Corpus, prefix: str, endpoint: str, system: str) -> _ColdRun:
    """Run a case on a separate node. Raises BenchError."""
    drop_page_cache()
    take_memory(corpus.total_bytes)
    with env.node(endpoint) as node:
        work = _work(node, node.list_source(prefix), corpus, system)
        before = _cpu(node)
        seconds = work()
        after = _cpu(node)
    cpu = {kind: 1000 * (after[kind] - before.get(kind, 0.0)) / corpus.files for kind in sorted(after)}
    return _ColdRun(corpus.files / seconds, {kind: ms for kind, ms in cpu.items() if ms >= 0.0005})


def _work(node: Node, volume: Volume, corpus: Corpus, system: str) -> Callable[[], float]:
    """Prepare the measured work. The returned function runs it and returns the seconds."""

    def warm() -> float:
        began = time.monotonic()
        node.warm(volume)
        return time.monotonic() - began

    if system == NOBODY_READS:
        return warm
    jobs = dealt(epoch_order(corpus, _SEED), _READERS)
    node.offer(volume)
    root = node.publish(volume, sampling(_SEED, _READERS)) if system == ORDER_KNOWN else cold_mount(node, volume)
    return lambda: read_jobs(root, jobs, corpus.total_bytes).seconds


def _cpu(node: Node) -> dict[str, float]:
    """Return the CPU seconds so far by kind of process. Workers are one kind, and so are FUSE servers."""
    spent: dict[str, float] = {}
    for name, pid in node.sidecar.pids().items():
        kind = name.rstrip("0123456789 ")
        spent[kind] = spent.get(kind, 0.0) + cpu_seconds(pid)
    return spent

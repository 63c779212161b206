"""A whole version, read in a known order from a cold page cache."""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_clean_pages, drop_page_cache
from bench.node import Node, Volume
from bench.readers import Job, read_jobs
from bench.report import Row, sampled
from bench.sampled import BATCH, dealt, epoch_order, sampling
from bench.scale import Corpus
from bench.systems import DISK_ALONE, MOST_AT_ONCE, NATIVE, ORDER_KNOWN, STOKER_NATIVE
from bench.workloads.epochs import counted
from stoker_api.datasets.dataset import MountMode

_SEED = 11
_READERS, _EPOCHS = (1, 4), 12
_FOLLOWED, _FOLLOWED_PACE = 10_000, 2_500.0  # files before the end of an epoch, and files per second
_IMPORTS_SECONDS = 1.0  # minimum seconds between a pod's mounts and its first read: PyTorch's import alone takes longer
_AT_ONCE = (1, 8, 32, MOST_AT_ONCE)
_SYSTEMS = (NATIVE, STOKER_NATIVE, ORDER_KNOWN)


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for an epoch from a cold page cache."""
    corpus = env.scale.known
    with env.corpus("pages", corpus) as prefix, env.native(prefix) as native, env.node() as node:
        bench = _Bench(env, corpus, node, node.list_source(prefix), native)
        node.warm(bench.volume)
        yield from _asked(bench)
        for readers in _READERS:
            yield from _cold(bench, readers)
            yield from _dropped(bench, readers)


@dataclass(frozen=True)
class _Bench:
    """The inputs of one case: a complete version on a node, and a copy of it on the same disk."""

    env: Environment
    corpus: Corpus
    node: Node
    volume: Volume
    native: Path

    @contextmanager
    def root(self, system: str, loaders: int) -> Iterator[Path]:
        """Mount the version for a new pod within the context, unless the case reads the copy."""
        if system == NATIVE:
            yield self.native
            return
        said = sampling(_SEED, loaders, epochs=_EPOCHS) if system == ORDER_KNOWN else ""
        target = self.node.publish(self.volume, said)
        self.node.wait_mode(target, MountMode.NATIVE)
        try:
            yield target
        finally:
            self.node.unpublish(target)

    def jobs(self, epoch: int, loaders: int) -> list[Job]:
        """Assign an epoch of a DistributedSampler to loaders."""
        return dealt(epoch_order(self.corpus, _SEED, epoch), loaders)

    def cold(self, system: str, readers: int) -> float:
        """Read the first epoch in a pod whose program has just started. Return files per second."""
        drop_page_cache()
        with self.root(system, readers) as root:
            time.sleep(_IMPORTS_SECONDS)
            return read_jobs(root, self.jobs(0, readers), self.corpus.total_bytes).rate

    def asked(self, at_once: int) -> float:
        """Load the copy's files from disk in the first epoch's order, without readers. Return files per second."""
        drop_page_cache()
        return _asked_rate(self.native, self.jobs(0, 1)[0].paths, self.corpus.size, at_once)


def _asked(bench: _Bench) -> Iterator[Row]:
    """Measure the disk's rate by the number of concurrent requests, compared with one reader without readahead."""
    case = "page cache dropped, the disk alone"
    runs = {f"asked for {count} at once, read by nobody": partial(bench.asked, count) for count in _AT_ONCE}
    rates = bench.env.in_turns(f"pages: {case}", {NATIVE: partial(bench.cold, NATIVE, 1), **runs})
    yield from sampled("pages", case, "files/s", rates, NATIVE)


def _cold(bench: _Bench, readers: int) -> Iterator[Row]:
    """Read an epoch from an empty page cache, in a pod whose program has just started."""
    case = f"page cache dropped, {counted(readers)}"
    runs = {system: partial(bench.cold, system, readers) for system in _SYSTEMS}
    rates = bench.env.in_turns(f"pages: {case}", {**runs, DISK_ALONE: partial(bench.asked, MOST_AT_ONCE)})
    yield from sampled("pages", case, "files/s", rates, NATIVE)


def _dropped(bench: _Bench, readers: int) -> Iterator[Row]:
    """Read a second epoch. The page cache is dropped without notice to the node when it starts.

    The end of the first epoch takes some seconds before it, in which the node finds the position of its readers.
    """
    case = f"page cache dropped, {counted(readers)}, in mid-training"
    first, second = (bench.jobs(epoch, readers) for epoch in (0, 1))

    def rate(system: str) -> float:
        with bench.root(system, readers) as root:
            if system == ORDER_KNOWN:
                _follow(root, first)
            os.sync()
            return read_jobs(root, second, bench.corpus.total_bytes, drop_clean_pages).rate

    runs = {system: partial(rate, system) for system in _SYSTEMS}
    rates = bench.env.in_turns(f"pages: {case}", {**runs, DISK_ALONE: partial(bench.asked, MOST_AT_ONCE)})
    yield from sampled("pages", case, "files/s", rates, NATIVE)


def _follow(root: Path, jobs: Sequence[Job]) -> None:
    """Read the end of an epoch slowly enough for a node to find the position from sampled reads."""
    order = [path for paths in zip_longest(*(job.paths for job in jobs)) for path in paths if path is not None]
    began = time.monotonic()
    for number, path in enumerate(order[-_FOLLOWED:]):
        (root / path).read_bytes()
        if number % BATCH == 0:
            time.sleep(max(0.0, began + number / _FOLLOWED_PACE - time.monotonic()))


def _asked_rate(root: Path, paths: Iterable[str], size: int, at_once: int) -> float:
    """Let the kernel load files of ``size`` bytes, this number at a time. Return files per second.

    This is the limit of reading ahead. No process copies the data, so it has the lowest CPU cost.
    """
    began, count, asked = time.monotonic(), 0, deque[int]()
    try:
        for path in paths:
            asked.append(os.open(f"{root}/{path}", os.O_RDONLY))
            os.posix_fadvise(asked[-1], 0, size, os.POSIX_FADV_WILLNEED)
            count += 1
            if len(asked) >= at_once:
                _come(asked.popleft(), size)
        while asked:
            _come(asked.popleft(), size)
    finally:
        for descriptor in asked:
            os.close(descriptor)
    return count / (time.monotonic() - began)


def _come(descriptor: int, size: int) -> None:
    """Wait for a file. The last byte in memory implies the rest."""
    try:
        os.pread(descriptor, 1, size - 1)
    finally:
        os.close(descriptor)

"""A version that is whole, read in a known order from a cold page cache, and with memory for a tenth of it."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from bench.asked_files import asked_rate
from bench.environment import Environment
from bench.measure import MIB, drop_clean_pages, drop_page_cache
from bench.memory_limit import MemoryLimit, memory_limit
from bench.node import Node, Volume
from bench.objects import paths
from bench.readers import Job, read_jobs
from bench.report import Row
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.systems import DISK_ALONE, IN_MEMORY, MOST_AT_ONCE, NATIVE, ORDER_KNOWN, STOKER_NATIVE
from bench.trained_epochs import ACCELERATORS, LOADERS, Accelerator, LaterEpochs, train_epochs
from bench.workloads.epochs import counted
from stoker_api.dataset import MountMode
from stoker_api.sampling import SampleFilesSpec, Sampling
from stoker_orders.predictors.samplers import SAMPLERS, SamplerName
from stoker_orders.sampling_plan import SampleLayout

_SEED, _BATCH = 11, 64
_READERS, _EPOCHS, _MOST_EPOCHS = (1, 4), 10, 12
# Of the data: what readers and fetcher have together, page cache and all.
_SHARE, _LEAST = 1 / 10, 48 * MIB
_TORCH = 512 * MIB  # beside the share, for a program with PyTorch and its loaders
_FOLLOWED, _FOLLOWED_PACE = 10_000, 2_500.0  # files before the end of an epoch, and files a second
_IMPORTS_SECONDS = 1.0  # between a pod's mounts and its first read, at least: PyTorch's import alone takes longer
_AT_ONCE = (1, 8, 32, MOST_AT_ONCE)
_FIRST_BATCH = "first batch of later epochs, x a middle one"
# What is told beside it.
_BESIDE: Mapping[str, Callable[[LaterEpochs], float]] = {
    "ms of a middle batch": lambda run: 1000 * run.middle,
    "% of a first batch's files in memory when opened": lambda run: run.there,
    "% of other batches' files in memory when opened": lambda run: run.middle_there,
}
_FILES = SampleFilesSpec(layout=SampleLayout.SHARDS)  # all files, by name


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for an epoch from a cold page cache."""
    corpus = env.scale.known
    with env.corpus("pages", corpus) as prefix, env.native(prefix) as native, env.node() as node:
        bench = _Bench(env, corpus, node, _whole(node, prefix), native)
        yield from _asked(bench)
        for readers in _READERS:
            yield from _cold(bench, readers)
            yield from _dropped(bench, readers)


def measure_scarce(env: Environment) -> Iterator[Row]:
    """Yield rows for ten epochs with little memory, and for the first batches of epochs."""
    corpus = env.scale.known
    share = max(_LEAST, int(corpus.total_bytes * _SHARE))
    with env.corpus("scarce", corpus) as prefix, env.native(prefix) as native:
        with memory_limit(share) as limit, _limited(env, limit) as node:
            bench = _Bench(env, corpus, node, _whole(node, prefix), native)
            limit.add([node.sidecar.pids()["fetcher"]])
            yield from _ten_epochs(bench, limit)
        with memory_limit(share + _TORCH) as limit, _limited(env, limit) as node:
            bench = _Bench(env, corpus, node, _whole(node, prefix), native)
            limit.add([node.sidecar.pids()["fetcher"]])
            for accelerator in ACCELERATORS:
                yield from _first_batches(bench, limit, accelerator)


@dataclass(frozen=True)
class _Bench:
    """What one case is measured with: a version that is whole on a node, and a copy of it on the same disk."""

    env: Environment
    corpus: Corpus
    node: Node
    volume: Volume
    native: Path

    @contextmanager
    def root(self, system: str, loaders: int, batch: int = _BATCH) -> Iterator[Path]:
        """Mount the version for a new pod while inside, unless the copy is to be read."""
        if system == NATIVE:
            yield self.native
            return
        said = Sampling(seed=_SEED, batch=batch, loaders=loaders, epochs=_MOST_EPOCHS, ranks=1, files=_FILES)
        target = self.node.publish(self.volume, said.text() if system == ORDER_KNOWN else "")
        self.node.wait_mode(target, MountMode.NATIVE)
        try:
            yield target
        finally:
            self.node.unpublish(target)

    def jobs(self, epoch: int, loaders: int) -> list[Job]:
        """Deal the batches of an epoch of a DistributedSampler out to loaders, as PyTorch's DataLoader does."""
        files = sorted(paths(self.corpus))
        order = SAMPLERS[SamplerName.TORCH_DISTRIBUTED].order(len(files), _SEED + epoch, epoch)
        batches = [[files[one] for one in order[at : at + _BATCH]] for at in range(0, len(order), _BATCH)]
        return [Job([path for batch in batches[one::loaders] for path in batch]) for one in range(loaders)]

    def cold(self, system: str, readers: int) -> float:
        """Read the first epoch by a pod whose program has just begun; return files a second."""
        with self.root(system, readers) as root:
            time.sleep(_IMPORTS_SECONDS)
            return read_jobs(root, self.jobs(0, readers), self.corpus.total_bytes).rate

    def asked(self, at_once: int) -> float:
        """Have the disk bring the copy's files in the first epoch's order, read by nobody; return files a second."""
        return asked_rate(self.native, self.jobs(0, 1)[0].paths, self.corpus.size, at_once)


def _whole(node: Node, prefix: str) -> Volume:
    volume = node.list_source(prefix)
    node.warm(volume)
    return volume


def _limited(env: Environment, limit: MemoryLimit) -> Node:
    return env.node(switches=Switches(memory_group=str(limit.folder)))


def _asked(bench: _Bench) -> Iterator[Row]:
    """Measure what the disk gives by how many files are asked for at once, beside one reader who asks for nothing."""
    case = "page cache dropped, the disk alone"
    systems = {f"asked for {count} at once, read by nobody": count for count in _AT_ONCE}
    rates: dict[str, list[float]] = {system: [] for system in (NATIVE, *systems)}
    for system in bench.env.turns(f"pages: {case}", rates):
        drop_page_cache()
        rates[system].append(bench.asked(systems[system]) if system in systems else bench.cold(NATIVE, 1))
    yield from _rows("pages", case, "files/s", rates)


def _cold(bench: _Bench, readers: int) -> Iterator[Row]:
    """Read an epoch with nothing of it in the page cache, by a pod whose program has just begun."""
    systems = (NATIVE, STOKER_NATIVE, ORDER_KNOWN, DISK_ALONE)
    case = f"page cache dropped, {counted(readers)}"
    rates: dict[str, list[float]] = {system: [] for system in systems}
    for system in bench.env.turns(f"pages: {case}", systems):
        drop_page_cache()
        rates[system].append(bench.asked(_AT_ONCE[-1]) if system == DISK_ALONE else bench.cold(system, readers))
    yield from _rows("pages", case, "files/s", rates)


def _dropped(bench: _Bench, readers: int) -> Iterator[Row]:
    """Read a second epoch, when all that is in memory is dropped behind the node's back as it begins.

    The end of the first one takes some seconds before, in which the place of its readers is found.
    """
    systems = (NATIVE, STOKER_NATIVE, ORDER_KNOWN, DISK_ALONE)
    case = f"page cache dropped, {counted(readers)}, in mid-training"
    rates: dict[str, list[float]] = {system: [] for system in systems}
    first, second = (bench.jobs(epoch, readers) for epoch in (0, 1))
    size = bench.corpus.total_bytes
    for system in bench.env.turns(f"pages: {case}", systems):
        if system == DISK_ALONE:
            drop_page_cache()
            rates[system].append(bench.asked(_AT_ONCE[-1]))
            continue
        with bench.root(system, readers) as root:
            if system == ORDER_KNOWN:
                _follow(root, first)
            os.sync()
            rates[system].append(read_jobs(root, second, size, lambda _: drop_clean_pages()).rate)
    yield from _rows("pages", case, "files/s", rates)


def _follow(root: Path, jobs: Sequence[Job]) -> None:
    """Read the end of an epoch slowly enough for a node that sees a sample of the reads to find the place."""
    order = [path for paths in zip_longest(*(job.paths for job in jobs)) for path in paths if path is not None]
    began = time.monotonic()
    for number, path in enumerate(order[-_FOLLOWED:]):
        (root / path).read_bytes()
        if number % _BATCH == 0:
            time.sleep(max(0.0, began + number / _FOLLOWED_PACE - time.monotonic()))


def _ten_epochs(bench: _Bench, limit: MemoryLimit) -> Iterator[Row]:
    """Read epochs one after the other, each in an order of its own, with memory for a part."""
    systems = (NATIVE, STOKER_NATIVE, ORDER_KNOWN)
    for readers in _READERS:
        case = f"{_EPOCHS} epochs, memory for a tenth, {counted(readers)}"
        epochs = [bench.jobs(epoch, readers) for epoch in range(_EPOCHS)]
        rates: dict[str, list[float]] = {system: [] for system in systems}
        for system in bench.env.turns(f"scarce: {case}", systems):
            with bench.root(system, readers) as root:
                drop_page_cache()
                seconds = 0.0
                for jobs in epochs:
                    seconds += read_jobs(root, jobs, bench.corpus.total_bytes, limit.add).seconds
                rates[system].append(_EPOCHS * bench.corpus.files / seconds)
        yield from _rows("scarce", case, "files/s", rates)


def _first_batches(bench: _Bench, limit: MemoryLimit, accelerator: Accelerator) -> Iterator[Row]:
    """Have PyTorch's DataLoader read epochs with little memory, and compare first batches with middle ones.

    What the loader's own beginning costs is measured beside it, with all in memory: it is what the ratio is of.
    """
    systems = (NATIVE, ORDER_KNOWN, IN_MEMORY)
    case = f"DataLoader of {LOADERS} workers, memory for a tenth, {accelerator.case}"
    found: dict[str, list[LaterEpochs]] = {system: [] for system in systems}
    files = sorted(paths(bench.corpus))
    for system in bench.env.turns(f"scarce: {case}", systems):
        if system == IN_MEMORY:
            read_jobs(bench.native, bench.jobs(0, 1), bench.corpus.total_bytes)
            found[system].append(train_epochs(bench.native, files, _SEED, accelerator, None))
        else:
            with bench.root(system, LOADERS, accelerator.batch) as root:
                drop_page_cache()
                found[system].append(train_epochs(root, files, _SEED, accelerator, limit))
    firsts = {system: [one.ratio for one in runs] for system, runs in found.items()}
    floor = f"{statistics.median(firsts[IN_MEMORY]):.2f} with all in memory"
    for system in systems:
        note = "" if system == IN_MEMORY else floor
        yield Row("scarce", case, system, _FIRST_BATCH, tuple(firsts[system]), IN_MEMORY, note)
    for unit, figure in _BESIDE.items():
        for system, runs in found.items():
            yield Row("scarce", case, system, unit, tuple(figure(one) for one in runs))


def _rows(workload: str, case: str, unit: str, figures: Mapping[str, Sequence[float]]) -> Iterator[Row]:
    for system, samples in figures.items():
        yield Row(workload, case, system, unit, tuple(samples), NATIVE)

"""A quality ratio of 0.5: the duration of an epoch with half of the data warm, and the uses of each sample."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.node import Node
from bench.objects import paths
from bench.readers import Job, read_jobs
from bench.report import Row
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.systems import STOKER, cold_volume
from bench.workloads.partial import read_through
from stoker_client import QualityRatioSampler

_PROFILE, _LOADERS, _SEED, _RATIO = "P20", 4, 7, 0.5
WHOLE, HALF = "Stoker, all samples", "Stoker, quality ratio 0.5"
OF_WHOLE, APART = "of the whole epoch's time", "times that one sample is seen more often than another"
_EPOCHS = 8  # at least two cycles of counted samples


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for both epochs' times, for their ratio, and for the evenness of the samples' counts."""
    corpus = env.scale.partial
    files, case = sorted(paths(corpus)), f"half of it warm, {_LOADERS} loaders, {_PROFILE}"
    samplers = {WHOLE: _sampler(len(files), 1.0), HALF: _sampler(len(files), _RATIO)}
    times: dict[str, list[float]] = {WHOLE: [], HALF: []}
    with (
        env.corpus("quality", corpus) as prefix,
        env.profile(_PROFILE) as endpoint,
        env.node(endpoint, Switches(read_through=read_through(corpus))) as node,
    ):
        root = _half_warm(node, prefix, files, corpus)
        for system in env.turns(f"quality: {case}", times):
            samplers[system].set_epoch(len(times[system]))
            order = [files[one] for one in samplers[system]]
            drop_page_cache()  # otherwise the kernel caches files beyond the quota
            times[system].append(read_jobs(root, _dealt(order), len(order) * corpus.size).seconds)
    for system, seconds in times.items():
        yield Row("quality", case, system, "s", tuple(seconds), WHOLE)
    ratios = [half / whole for half, whole in zip(times[HALF], times[WHOLE], strict=False)]
    yield Row("quality", case, STOKER, OF_WHOLE, tuple(ratios))
    yield Row("quality", f"{_EPOCHS} epochs, after each of them", STOKER, APART, (float(_apart(len(files))),))


def _sampler(count: int, ratio: float) -> QualityRatioSampler:
    return QualityRatioSampler(count, ratio, seed=_SEED, rank=0, world_size=1)


def _half_warm(node: Node, prefix: str, files: list[str], corpus: Corpus) -> Path:
    """Mount the data with a quota of half of it, filled at random. Every epoch reads the rest through."""
    volume, root = cold_volume(node, prefix)
    node.offer(volume, quota=corpus.total_bytes // 2)
    order = random.Random(_SEED).sample(files, len(files))
    drop_page_cache()
    read_jobs(root, _dealt(order), corpus.total_bytes)
    return root


def _dealt(order: list[str]) -> list[Job]:
    return [Job(order[one::_LOADERS]) for one in range(_LOADERS)]


def _apart(count: int) -> int:
    """Return the largest difference between the counts of two samples, after any epoch of the run."""
    sampler, seen, most = _sampler(count, _RATIO), Counter(dict.fromkeys(range(count), 0)), 0
    for epoch in range(_EPOCHS):
        sampler.set_epoch(epoch)
        seen.update(sampler)
        most = max(most, max(seen.values()) - min(seen.values()))
    return most

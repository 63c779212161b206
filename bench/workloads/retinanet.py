"""The retinanet case of MLPerf Storage v3.0: one JPEG a sample in a seeded shuffle, for accelerators of the B200 class.

Files per second are of readers that compute nothing. Utilization is of one accelerator. A warm epoch starts with a
dropped page cache, as if the files did not fit the memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache, take_memory
from bench.readers import read_jobs
from bench.report import Row, sampled
from bench.sampled import epoch_order
from bench.scale import Corpus
from bench.systems import NATIVE, ORDER_KNOWN, S5CMD, STOKER, STOKER_FUSE, cold_volume, new_mount, whole_ways
from bench.trainer import RETINANET, train
from bench.workloads.orders import SEED, epoch_jobs, said, trained

_FED = 0.85  # an accelerator counts as fed from this utilization on


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for cold epochs beside a copy, and for warm ones beside the bare disk."""
    corpus = env.scale.retinanet
    with env.corpus("retinanet", corpus) as prefix:
        yield from _cold(env, corpus, prefix)
        yield from trained(env, "retinanet", corpus, prefix, "P0", RETINANET)
        with env.node() as node:
            volume, target = cold_volume(node, prefix)
            read_jobs(target, epoch_jobs(corpus), corpus.total_bytes)
            roots = {system: root for system, root in whole_ways(node, volume, target).items() if system != STOKER_FUSE}
            yield from _warm(env, corpus, roots)


def _cold(env: Environment, corpus: Corpus, prefix: str) -> Iterator[Row]:
    def read(sampling: str) -> float:
        drop_page_cache()
        take_memory(corpus.total_bytes)
        with env.node() as node:
            return read_jobs(new_mount(node, prefix, sampling), epoch_jobs(corpus), corpus.total_bytes).rate

    def copied() -> float:
        return corpus.files / env.copied(prefix, memory=corpus.total_bytes)[0].seconds

    runs: dict[str, Callable[[], float]] = {
        S5CMD: copied,
        STOKER: partial(read, ""),
        ORDER_KNOWN: partial(read, said()),
    }
    yield from _rates("cold", env.in_turns("retinanet: cold", runs), S5CMD)


def _warm(env: Environment, corpus: Corpus, roots: Mapping[str, Path]) -> Iterator[Row]:
    """Measure every epoch after the cold one."""
    epochs = replace(env, scale=replace(env.scale, repeats=env.scale.retinanet_epochs - 1))
    numbers = count(1)

    def read(root: Path) -> float:
        drop_page_cache()
        return read_jobs(root, epoch_jobs(corpus, next(numbers)), corpus.total_bytes).rate

    def fed(root: Path) -> float:
        drop_page_cache()
        order = epoch_order(corpus, SEED, next(numbers))
        return train(root, [order], RETINANET.batch, RETINANET.step).utilisation

    rates = epochs.in_turns("retinanet: warm", {system: partial(read, root) for system, root in roots.items()})
    yield from _rates("warm", rates, NATIVE)
    shares = epochs.in_turns("retinanet: one B200", {system: partial(fed, root) for system, root in roots.items()})
    yield from sampled("retinanet", f"warm, {RETINANET.says}", "accelerator utilisation", shares, NATIVE)


def _rates(case: str, rates: Mapping[str, Sequence[float]], against: str) -> Iterator[Row]:
    """Yield the rates of epochs, and the number of accelerators that each rate feeds."""
    yield from sampled("retinanet", case, "files/s", rates, against)
    fed = {system: [float(rate // (_FED * RETINANET.rate)) for rate in samples] for system, samples in rates.items()}
    yield from sampled("retinanet", case, "B200s fed", fed, against)

"""B2: large files read from start to end in pieces of 128 KiB and of 1 MiB."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.objects import paths
from bench.readers import read_epoch
from bench.report import Row, sampled
from bench.systems import NATIVE, cold_volume, whole_ways
from bench.workloads.epochs import counted

_BUFFERS = (128 * 1024, 1024 * 1024)
_READERS = (1, 4)
_WARM_EPOCHS = 5  # of 0.1 s each


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each piece size and number of readers, with the page cache warm and dropped."""
    with env.corpus("b2", env.scale.large) as prefix, env.node() as node:
        volume, target = cold_volume(node, prefix)
        roots = whole_ways(node, volume, target)
        for dropped in (True, False):
            for buffer in _BUFFERS:
                for readers in _READERS:
                    yield from _compare(env, roots, buffer, readers, dropped=dropped)


def _compare(env: Environment, roots: dict[str, Path], buffer: int, readers: int, *, dropped: bool) -> Iterator[Row]:
    """Compare the systems. An epoch that does not count fills a warm page cache."""
    corpus = env.scale.large
    state = "page cache dropped" if dropped else "page cache warm"
    case = f"{buffer // 1024} KiB a read, {counted(readers)}, {state}"
    epochs = 1 if dropped else _WARM_EPOCHS
    files = list(paths(corpus))

    def rate(root: Path) -> float:
        if dropped:
            drop_page_cache()
        else:
            read_epoch(root, files, readers, corpus.total_bytes)
        return read_epoch(root, files * epochs, readers, corpus.total_bytes * epochs, buffer).mb_rate

    rates = env.in_turns(f"B2: {case}", {system: partial(rate, root) for system, root in roots.items()})
    yield from sampled("B2", case, "MB/s", rates, NATIVE)

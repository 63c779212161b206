"""B1: epochs of small files in a new order each time, cold and warm, compared with the bare disk and s5cmd."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.node import Node, Volume
from bench.objects import paths
from bench.readers import read_epoch
from bench.report import Cost, Row, sampled
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.systems import NATIVE, S5CMD, STOKER, cold_volume, whole_ways
from bench.trainer import IMAGES_A_BATCH, STEP_SECONDS, train

_READERS = (1, 2, 4)
_MOST = max(_READERS)
_COLD = f"cold, {_MOST} readers"
_OVERLAY_OFF = "Stoker, overlay off"


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for cold epochs, for warm ones with a warm and a dropped page cache, and without the overlay."""
    corpus = env.scale.epochs
    with env.corpus("b1", corpus) as prefix:
        yield _copies(env, corpus, prefix)
        with env.node(switches=Switches(overlay=False)) as node:
            yield _cold(env, corpus, prefix, node, _OVERLAY_OFF)[2]
        with env.node() as node:
            volume, target, row = _cold(env, corpus, prefix, node, STOKER)
            yield row
            roots = whole_ways(node, volume, target)
            yield from _warm(env, corpus, roots)
            yield from _trained(env, corpus, roots)


def new_orders(corpus: Corpus) -> Iterator[list[str]]:
    """Yield permutations of a corpus's files: a different one for each epoch, the same in every run."""
    files, chance = list(paths(corpus)), random.Random(corpus.files)
    while True:
        yield chance.sample(files, len(files))


def _copies(env: Environment, corpus: Corpus, prefix: str) -> Row:
    """Measure the download limit: a copy by s5cmd."""
    copies, costs = zip(*(env.copied(prefix) for _ in env.repeat("B1: copy by s5cmd")), strict=True)
    rates = tuple(corpus.files / copy.seconds for copy in copies)
    return Row("B1", _COLD, S5CMD, "files/s", rates, S5CMD, "a copy, nothing is read", costs)


def _cold(env: Environment, corpus: Corpus, prefix: str, node: Node, system: str) -> tuple[Volume, Path, Row]:
    """Measure the first epoch without local files. The last volume and its mount stay."""
    orders, rates = new_orders(corpus), []
    costs: list[Cost] = []
    mounted: tuple[Volume, Path] | None = None
    for _ in env.repeat(f"B1: cold epoch, {system}"):
        if mounted is not None:
            node.unpublish(mounted[1])
            node.remove(mounted[0])
        mounted = cold_volume(node, prefix)
        drop_page_cache()
        with env.meter(node) as meter:
            rates.append(read_epoch(mounted[1], next(orders), _MOST, corpus.total_bytes).rate)
        costs.append(meter.cost)
    assert mounted is not None, "a case is run at least once"
    return *mounted, Row("B1", _COLD, system, "files/s", tuple(rates), S5CMD, costs=tuple(costs))


def _warm(env: Environment, corpus: Corpus, roots: dict[str, Path]) -> Iterator[Row]:
    orders = new_orders(corpus)
    # Reopen files that were first opened while missing. In an overlay, the open decides which layer answers.
    drop_page_cache()
    for root in roots.values():  # fills the page cache and does not count
        read_epoch(root, next(orders), _MOST, corpus.total_bytes)

    def rate(root: Path, readers: int, *, dropped: bool) -> float:
        if dropped:
            drop_page_cache()
        return read_epoch(root, next(orders), readers, corpus.total_bytes).rate

    for state in ("warm", "dropped"):
        for readers in _READERS:
            case, dropped = f"page cache {state}, {counted(readers)}", state == "dropped"
            runs = {system: partial(rate, root, readers, dropped=dropped) for system, root in roots.items()}
            yield from sampled("B1", case, "files/s", env.in_turns(f"B1: {case}", runs), NATIVE)


def _trained(env: Environment, corpus: Corpus, roots: dict[str, Path]) -> Iterator[Row]:
    """Measure utilization as MLPerf Storage does: one accelerator, fed by 4 threads, from a dropped page cache."""
    case = f"{IMAGES_A_BATCH} images a step of {STEP_SECONDS:.3f} s, page cache dropped"
    orders = new_orders(corpus)
    for system, root in roots.items():
        shares = []
        for _ in env.repeat(f"B1: accelerator, {system}"):
            drop_page_cache()
            shares.append(train(root, [next(orders)]).utilisation)
        yield Row("B1", case, system, "accelerator utilisation", tuple(shares), NATIVE)


def counted(readers: int) -> str:
    """Format a number of readers."""
    return f"{readers} reader{'s' if readers > 1 else ''}"

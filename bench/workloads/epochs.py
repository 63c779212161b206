"""B1: epochs of small files in a new order each time, cold and warm, beside the bare disk and s5cmd."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.environment import Environment
from bench.measure import drop_page_cache
from bench.node import Node, Volume
from bench.objects import paths
from bench.peers import s5cmd_copy
from bench.readers import Epoch, read_epoch
from bench.report import Cost, Row
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.systems import NATIVE, S5CMD, STOKER, cold_volume, whole_ways
from bench.trainer import IMAGES_A_BATCH, STEP_SECONDS, train
from bench.variants.fuse import mounted as without_keep_cache

_READERS = (1, 2, 4)
_MOST = max(_READERS)
_COLD = f"cold, {_MOST} readers"
_OVERLAY_OFF = "Stoker, overlay off"
_KEEP_CACHE_OFF = "Stoker FUSE, keep_cache off"


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for cold epochs, warm ones with the page cache warm and dropped, and with mechanisms switched off."""
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
            yield from _forgetful(env, corpus, node, volume)


class Orders:
    """Permutations of a corpus's files: another for each epoch, the same in every run."""

    def __init__(self, corpus: Corpus) -> None:
        self._files = list(paths(corpus))
        self._random = random.Random(corpus.files)

    def next(self) -> list[str]:
        """Return all files once, in the next order."""
        return self._random.sample(self._files, len(self._files))


def _copies(env: Environment, corpus: Corpus, prefix: str) -> Row:
    """Measure the download limit: a copy by s5cmd."""
    rates, costs = [], []
    target = env.scratch / "copy"
    for _ in env.repeat("B1: copy by s5cmd"):
        drop_page_cache()
        with env.meter() as meter:
            copy = s5cmd_copy(env.server, prefix, target)
        shutil.rmtree(target)
        rates.append(corpus.files / copy.seconds)
        costs.append(meter.of_copy(copy))
    return Row("B1", _COLD, S5CMD, "files/s", tuple(rates), S5CMD, "a copy, nothing is read", tuple(costs))


def _cold(env: Environment, corpus: Corpus, prefix: str, node: Node, system: str) -> tuple[Volume, Path, Row]:
    """Measure the first epoch with nothing on the node; the last volume stays, and its mount."""
    orders, rates = Orders(corpus), []
    costs: list[Cost] = []
    mounted: tuple[Volume, Path] | None = None
    for _ in env.repeat(f"B1: cold epoch, {system}"):
        if mounted is not None:
            node.unpublish(mounted[1])
            node.remove(mounted[0])
        mounted = cold_volume(node, prefix)
        drop_page_cache()
        with env.meter(node) as meter:
            rates.append(read_epoch(mounted[1], orders.next(), _MOST, corpus.total_bytes).rate)
        costs.append(meter.cost)
    assert mounted is not None, "a case is run at least once"
    return *mounted, Row("B1", _COLD, system, "files/s", tuple(rates), S5CMD, costs=tuple(costs))


def _warm(env: Environment, corpus: Corpus, roots: dict[str, Path]) -> Iterator[Row]:
    orders = Orders(corpus)

    def epoch(root: Path, readers: int) -> Epoch:
        return read_epoch(root, orders.next(), readers, corpus.total_bytes)

    # What was first opened while it was missing is opened anew: at an overlay, that decides who answers.
    drop_page_cache()
    for root in roots.values():
        epoch(root, _MOST)  # fills the page cache and is not counted
    yield from _states(env, roots, "page cache warm", lambda: None, epoch)
    yield from _states(env, roots, "page cache dropped", drop_page_cache, epoch)


def _states(
    env: Environment,
    roots: dict[str, Path],
    state: str,
    prepare: Callable[[], None],
    epoch: Callable[[Path, int], Epoch],
) -> Iterator[Row]:
    for readers in _READERS:
        case = f"{state}, {counted(readers)}"
        rates: dict[str, list[float]] = {system: [] for system in roots}
        for system in env.turns(f"B1: {case}", roots):
            prepare()
            rates[system].append(epoch(roots[system], readers).rate)
        for system, samples in rates.items():
            yield Row("B1", case, system, "files/s", tuple(samples), NATIVE)


def _trained(env: Environment, corpus: Corpus, roots: dict[str, Path]) -> Iterator[Row]:
    """Measure utilisation as MLPerf Storage does: one accelerator, fed by 4 threads, from a dropped page cache."""
    case = f"{IMAGES_A_BATCH} images a step of {STEP_SECONDS:.3f} s, page cache dropped"
    orders = Orders(corpus)
    for system, root in roots.items():
        shares = []
        for _ in env.repeat(f"B1: accelerator, {system}"):
            drop_page_cache()
            shares.append(train(root, [orders.next()]).utilisation)
        yield Row("B1", case, system, "accelerator utilisation", tuple(shares), NATIVE)


def _forgetful(env: Environment, corpus: Corpus, node: Node, volume: Volume) -> Iterator[Row]:
    """Measure FUSE without keep_cache: every open throws the file's pages away."""
    orders, rates = Orders(corpus), []
    with without_keep_cache(node, volume, env.scratch / "forgetful") as root:
        read_epoch(root, orders.next(), _MOST, corpus.total_bytes)
        for _ in env.repeat("B1: keep_cache off"):
            rates.append(read_epoch(root, orders.next(), _MOST, corpus.total_bytes).rate)
    yield Row("B1", f"page cache warm, {counted(_MOST)}", _KEEP_CACHE_OFF, "files/s", tuple(rates), NATIVE)


def counted(readers: int) -> str:
    """Write a number of readers in words."""
    return f"{readers} reader{'s' if readers > 1 else ''}"

"""B1: epochs of small files in a new order each time, cold and warm, beside the bare disk and s5cmd."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.bed import Bed
from bench.measure import drop_page_cache
from bench.node import Node, Volume
from bench.objects import paths
from bench.peers import s5cmd_copy
from bench.readers import Epoch, read_epoch
from bench.report import Cost, Row
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.subjects import NATIVE, S5CMD, STOKER, STOKER_FUSE, cold_volume, whole_ways
from bench.trainer import IMAGES_A_BATCH, STEP_SECONDS, train

_READERS = (1, 2, 4)
_MOST = max(_READERS)
_COLD = f"cold, {_MOST} readers"
_OVERLAY_OFF = "Stoker, overlay off"
_KEEP_CACHE_OFF = "Stoker FUSE, keep_cache off"


def measure(bed: Bed) -> Iterator[Row]:
    """Rows for cold epochs, then for warm ones with the page cache warm and dropped, then for mechanisms switched off."""
    corpus = bed.scale.epochs
    with bed.corpus("b1", corpus) as prefix:
        yield _copies(bed, corpus, prefix)
        with bed.node(switches=Switches(overlay=False)) as node:
            yield _cold(bed, corpus, prefix, node, _OVERLAY_OFF)[2]
        with bed.node() as node:
            volume, target, row = _cold(bed, corpus, prefix, node, STOKER)
            yield row
            roots = whole_ways(node, volume, target)
            yield from _warm(bed, corpus, roots)
            yield from _trained(bed, corpus, roots)
        with bed.node(switches=Switches(overlay=False, keep_cache=False)) as node:
            yield from _forgetful(bed, corpus, prefix, node)


class Orders:
    """A new permutation for each epoch, the same in every run."""

    def __init__(self, corpus: Corpus) -> None:
        self._files = list(paths(corpus))
        self._random = random.Random(corpus.files)

    def next(self) -> list[str]:
        """All files once."""
        return self._random.sample(self._files, len(self._files))


def _copies(bed: Bed, corpus: Corpus, prefix: str) -> Row:
    """The download limit."""
    rates, costs = [], []
    target = bed.scratch / "copy"
    for _ in bed.repeat("B1: copy by s5cmd"):
        drop_page_cache()
        with bed.meter() as meter:
            copy = s5cmd_copy(bed.server, prefix, target)
        shutil.rmtree(target)
        rates.append(corpus.files / copy.seconds)
        costs.append(meter.of_copy(copy))
    return Row("B1", _COLD, S5CMD, "files/s", tuple(rates), S5CMD, "a copy, nothing is read", tuple(costs))


def _cold(bed: Bed, corpus: Corpus, prefix: str, node: Node, subject: str) -> tuple[Volume, Path, Row]:
    """The first epoch with nothing on the node; the last volume stays, and its mount."""
    orders, rates = Orders(corpus), []
    costs: list[Cost] = []
    mounted: tuple[Volume, Path] | None = None
    for _ in bed.repeat(f"B1: cold epoch, {subject}"):
        if mounted is not None:
            node.unpublish(mounted[1])
            node.remove(mounted[0])
        mounted = cold_volume(node, prefix)
        drop_page_cache()
        with bed.meter(node) as meter:
            rates.append(read_epoch(mounted[1], orders.next(), _MOST, corpus.total_bytes).rate)
        costs.append(meter.cost)
    assert mounted is not None, "a case is run at least once"
    return *mounted, Row("B1", _COLD, subject, "files/s", tuple(rates), S5CMD, costs=tuple(costs))


def _warm(bed: Bed, corpus: Corpus, roots: dict[str, Path]) -> Iterator[Row]:
    orders = Orders(corpus)

    def epoch(root: Path, readers: int) -> Epoch:
        return read_epoch(root, orders.next(), readers, corpus.total_bytes)

    drop_page_cache()  # what was first opened while it was missing is opened anew: at an overlay, that decides who answers
    for root in roots.values():
        epoch(root, _MOST)  # fills the page cache and is not counted
    yield from _states(bed, roots, "page cache warm", lambda: None, epoch)
    yield from _states(bed, roots, "page cache dropped", drop_page_cache, epoch)


def _states(
    bed: Bed, roots: dict[str, Path], state: str, prepare: Callable[[], None], epoch: Callable[[Path, int], Epoch]
) -> Iterator[Row]:
    for readers in _READERS:
        case = f"{state}, {counted(readers)}"
        rates: dict[str, list[float]] = {subject: [] for subject in roots}
        for subject in bed.turns(f"B1: {case}", roots):
            prepare()
            rates[subject].append(epoch(roots[subject], readers).rate)
        for subject, samples in rates.items():
            yield Row("B1", case, subject, "files/s", tuple(samples), NATIVE)


def _trained(bed: Bed, corpus: Corpus, roots: dict[str, Path]) -> Iterator[Row]:
    """Utilisation as MLPerf Storage counts it: one accelerator, fed by 4 threads, with the page cache dropped before."""
    case = f"{IMAGES_A_BATCH} images a step of {STEP_SECONDS:.3f} s, page cache dropped"
    orders = Orders(corpus)
    for subject, root in roots.items():
        shares = []
        for _ in bed.repeat(f"B1: accelerator, {subject}"):
            drop_page_cache()
            shares.append(train(root, [orders.next()]).utilisation)
        yield Row("B1", case, subject, "accelerator utilisation", tuple(shares), NATIVE)


def _forgetful(bed: Bed, corpus: Corpus, prefix: str, node: Node) -> Iterator[Row]:
    """FUSE without keep_cache: every open throws the file's pages away."""
    volume, target = cold_volume(node, prefix)
    root = whole_ways(node, volume, target)[STOKER_FUSE]
    orders = Orders(corpus)
    read_epoch(root, orders.next(), _MOST, corpus.total_bytes)
    rates = [read_epoch(root, orders.next(), _MOST, corpus.total_bytes).rate for _ in bed.repeat("B1: keep_cache off")]
    yield Row("B1", f"page cache warm, {counted(_MOST)}", _KEEP_CACHE_OFF, "files/s", tuple(rates), NATIVE)


def counted(readers: int) -> str:
    """In words."""
    return f"{readers} reader{'s' if readers > 1 else ''}"

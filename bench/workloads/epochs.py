"""B1: epochs of small files in a new order each time, cold and warm, beside the bare disk and s5cmd."""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.bed import Bed
from bench.measure import drop_page_cache
from bench.objects import paths
from bench.peers import s5cmd_copy
from bench.readers import Epoch, read_epoch
from bench.report import Row
from bench.scale import Corpus
from bench.sidecar import Sidecar, Volume
from stoker_sidecar.keep.bind import bind_read_only
from stoker_sidecar.keep.syscalls import detach

_READERS = (1, 2, 4)
_COLD_READERS = 4
_NATIVE, _BIND, _FUSE, _PEER = "native", "Stoker bind", "Stoker FUSE", "s5cmd"


def measure(bed: Bed) -> Iterator[Row]:
    """Rows for cold epochs, then for warm ones with the page cache warm and dropped."""
    corpus = bed.scale.epochs
    with bed.corpus("b1", corpus) as prefix, bed.sidecar() as sidecar:
        native = bed.scratch / "native"
        yield _copies(bed, corpus, prefix, native)
        volume, cold = _cold(bed, corpus, prefix, sidecar)
        yield cold
        sidecar.warm(volume)  # nothing is left to fetch: only the marker is missing
        with _mounted(bed, sidecar, volume) as roots:
            yield from _warm(bed, corpus, {_NATIVE: native} | roots)
        shutil.rmtree(native)


class _Orders:
    """A new permutation for each epoch, the same in every run."""

    def __init__(self, corpus: Corpus) -> None:
        self._files = list(paths(corpus))
        self._random = random.Random(corpus.files)

    def next(self) -> list[str]:
        return self._random.sample(self._files, len(self._files))


def _copies(bed: Bed, corpus: Corpus, prefix: str, native: Path) -> Row:
    """The download limit; the last copy stays as the native tree."""
    rates = []
    for _ in bed.repeat("B1: copy by s5cmd"):
        shutil.rmtree(native, ignore_errors=True)
        drop_page_cache()
        rates.append(corpus.files / s5cmd_copy(bed.server, prefix, native).seconds)
    return Row(
        "B1", f"cold, {_counted(_COLD_READERS)}", _PEER, "files/s", tuple(rates), _PEER, "a copy, nothing is read"
    )


def _cold(bed: Bed, corpus: Corpus, prefix: str, sidecar: Sidecar) -> tuple[Volume, Row]:
    """The first epoch through FUSE with nothing on the node; the last volume stays."""
    orders, rates, gets = _Orders(corpus), [], 0
    volume = sidecar.list_source(prefix)
    for number in bed.repeat("B1: cold epoch by FUSE"):
        if number > 1:
            sidecar.remove(volume)
            volume = sidecar.list_source(prefix)
        sidecar.offer(volume)
        root = sidecar.mount(volume)
        drop_page_cache()
        position = bed.server.position()
        rates.append(read_epoch(root, orders.next(), _COLD_READERS, corpus.total_bytes).rate)
        gets = bed.server.asked(position).gets
        sidecar.unmount(volume)
    case, note = f"cold, {_counted(_COLD_READERS)}", f"{gets:,} GETs for {corpus.files:,} files"
    return volume, Row("B1", case, _FUSE, "files/s", tuple(rates), _PEER, note)


@contextmanager
def _mounted(bed: Bed, sidecar: Sidecar, volume: Volume) -> Iterator[dict[str, Path]]:
    """The complete version both ways."""
    target = bed.scratch / "bind"
    target.mkdir()
    bind_read_only(str(volume.paths.tree), str(target))
    try:
        yield {_BIND: target, _FUSE: sidecar.mount(volume)}
    finally:
        detach(str(target))
        sidecar.unmount(volume)


def _warm(bed: Bed, corpus: Corpus, roots: dict[str, Path]) -> Iterator[Row]:
    orders = _Orders(corpus)

    def epoch(root: Path, readers: int) -> Epoch:
        return read_epoch(root, orders.next(), readers, corpus.total_bytes)

    for root in roots.values():
        epoch(root, max(_READERS))  # fills the page cache and is not counted
    yield from _states(bed, roots, "page cache warm", lambda: None, epoch)
    yield from _states(bed, roots, "page cache dropped", drop_page_cache, epoch)


def _states(
    bed: Bed, roots: dict[str, Path], state: str, prepare: Callable[[], None], epoch: Callable[[Path, int], Epoch]
) -> Iterator[Row]:
    """Subjects take turns, so that what else the machine does falls on all of them."""
    for readers in _READERS:
        case = f"{state}, {_counted(readers)}"
        rates: dict[str, list[float]] = {subject: [] for subject in roots}
        for _ in bed.repeat(f"B1: {case}"):
            for subject, root in roots.items():
                prepare()
                rates[subject].append(epoch(root, readers).rate)
        for subject, samples in rates.items():
            yield Row("B1", case, subject, "files/s", tuple(samples), _NATIVE)


def _counted(readers: int) -> str:
    return f"{readers} reader{'s' if readers > 1 else ''}"

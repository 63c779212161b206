"""A second epoch of a version that is nearly whole: in the overlay of the first one, and once it was made whole."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.environment import Environment
from bench.errors import BenchError
from bench.measure import drop_clean_pages, wait_until
from bench.node import Node, Volume, fuse_requests, mode
from bench.objects import paths
from bench.readers import read_epoch
from bench.report import Row
from bench.scale import Corpus
from bench.sidecar import Switches
from bench.systems import NATIVE, STOKER, STOKER_NATIVE, STOKER_OVERLAY, cold_volume
from bench.workloads.epochs import Orders
from stoker_api.dataset import MountMode

_READERS = (1, 4)
_MOST = max(_READERS)
_KNOWN_COLD = "Stoker overlay, names known since they were cold"
_SECONDS = 60.0
# A minute in which nothing comes, the fetcher's looks every ten seconds, and a machine that is busy.
_WHOLE_SECONDS = 120.0


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each size of file."""
    for corpus in env.scale.second:
        with env.corpus("second", corpus) as prefix, env.native(prefix) as native:
            with env.node(switches=Switches(last_files=False)) as node:
                if not node.overlays():
                    raise BenchError("this node has no overlays")
                yield from _overlaid(env, corpus, node, prefix, native)
            if corpus == env.scale.second[-1]:  # files of 4 KiB, which notice the most
                with env.node() as node:
                    yield from _made_whole(env, corpus, node, prefix, native)


def _overlaid(env: Environment, corpus: Corpus, node: Node, prefix: str, native: Path) -> Iterator[Row]:
    """Read all but one file cold, so that the version stays an overlay; then read them again."""
    order, size = _all_but_one(corpus), _size(corpus)
    volume, target = cold_volume(node, prefix)
    env.say(f"second: {size}, the cold epoch")
    read_epoch(target, order, _MOST, len(order) * corpus.size)
    # Before the node has had the names forgotten: 10 s after the first file at the soonest, so one sample.
    stale = read_epoch(target, order, _MOST, len(order) * corpus.size).rate
    yield Row("second", f"{size}, page cache warm, {_MOST} readers", _KNOWN_COLD, "files/s", (stale,), NATIVE)
    _wait_forgotten(node, volume, target, order)
    roots = {NATIVE: native, STOKER_OVERLAY: target}
    orders = Orders(corpus)
    _fill_page_cache(corpus, roots)
    states: dict[str, Callable[[], None]] = {"warm": lambda: None, "dropped": _drop_pages}
    for state, prepare in states.items():
        for readers in _READERS:
            case = f"{size}, page cache {state}, {readers} reader{'s' * (readers > 1)}"
            yield from _rates(env, corpus, orders, roots, case, readers, prepare)


def _made_whole(env: Environment, corpus: Corpus, node: Node, prefix: str, native: Path) -> Iterator[Row]:
    """Read all but one file cold, and have the node fetch that one, as nodes do; then read them again."""
    order, size = _all_but_one(corpus), _size(corpus)
    _, target = cold_volume(node, prefix)
    env.say(f"second: {size}, the cold epoch of a version that is then made whole")
    read_epoch(target, order, _MOST, len(order) * corpus.size)
    read_at = time.monotonic()
    wait_until("the last file to come, and native opens", lambda: mode(target) is MountMode.NATIVE, _WHOLE_SECONDS)
    case = f"{size}, all but one file read"
    yield Row("second", case, STOKER, "s from the last read to native opens", (time.monotonic() - read_at,))
    roots, orders = {NATIVE: native, STOKER_NATIVE: target}, Orders(corpus)
    _fill_page_cache(corpus, roots)
    for readers in _READERS:
        case = f"{size}, made whole, page cache warm, {readers} reader{'s' * (readers > 1)}"
        yield from _rates(env, corpus, orders, roots, case, readers, lambda: None)


def _rates(
    env: Environment,
    corpus: Corpus,
    orders: Orders,
    roots: Mapping[str, Path],
    case: str,
    readers: int,
    prepare: Callable[[], None],
) -> Iterator[Row]:
    """Yield the rates of all systems, which take turns; ``prepare`` is called before each."""
    first = next(iter(paths(corpus)))
    rates: dict[str, list[float]] = {system: [] for system in roots}
    for system in env.turns(f"second: {case}", roots):
        prepare()
        files = [path for path in orders.next() if path != first]
        rates[system].append(read_epoch(roots[system], files, readers, len(files) * corpus.size).rate)
    for system, samples in rates.items():
        yield Row("second", case, system, "files/s", tuple(samples), NATIVE)


def _all_but_one(corpus: Corpus) -> list[str]:
    return list(paths(corpus))[1:]


def _size(corpus: Corpus) -> str:
    return f"{corpus.size / 1024:,.0f} KiB"


def _fill_page_cache(corpus: Corpus, roots: Mapping[str, Path]) -> None:
    order = _all_but_one(corpus)
    for root in roots.values():
        read_epoch(root, order, _MOST, len(order) * corpus.size)


def _drop_pages() -> None:
    """Drop pages and keep names, as memory that becomes scarce does: an overlay that forgot its names is no news."""
    os.sync()
    drop_clean_pages(names=False)


def _wait_forgotten(node: Node, volume: Volume, target: Path, order: list[str]) -> None:
    """Wait until reads reach the FUSE server no more. Raises BenchError."""
    layer = node.layer(volume, MountMode.FUSE)
    if layer is None:
        raise BenchError("the overlay's FUSE mount is not there")

    def forgotten() -> bool:
        before = fuse_requests(layer)
        (target / order[0]).read_bytes()
        return fuse_requests(layer) == before

    wait_until("the overlay's names to be forgotten", forgotten, _SECONDS)

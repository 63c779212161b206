"""A second epoch of a version that is nearly whole, in the overlay in which the first one was read cold."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.environment import Environment
from bench.errors import BenchError
from bench.measure import drop_clean_pages, wait_until
from bench.node import Node, Volume, fuse_requests
from bench.objects import paths
from bench.readers import read_epoch
from bench.report import Row
from bench.scale import Corpus
from bench.systems import NATIVE, STOKER_OVERLAY, cold_volume
from bench.workloads.epochs import Orders
from stoker_api.dataset import MountMode

_READERS = (1, 4)
_MOST = max(_READERS)
_KNOWN_COLD = "Stoker overlay, names known since they were cold"
_SECONDS = 60.0


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for each size of file."""
    for corpus in env.scale.second:
        with env.corpus("second", corpus) as prefix, env.native(prefix) as native, env.node() as node:
            if not node.overlays():
                raise BenchError("this node has no overlays")
            yield from _of(env, corpus, node, prefix, native)


def _of(env: Environment, corpus: Corpus, node: Node, prefix: str, native: Path) -> Iterator[Row]:
    """Read all but one file cold, so that the version stays an overlay; then read them again."""
    order = list(paths(corpus))[1:]
    size = f"{corpus.size / 1024:,.0f} KiB"
    volume, target = cold_volume(node, prefix)
    env.say(f"second: {size}, the cold epoch")
    read_epoch(target, order, _MOST, len(order) * corpus.size)
    # Before the node has had the names forgotten: 10 s after the first file at the soonest, so one sample.
    stale = read_epoch(target, order, _MOST, len(order) * corpus.size).rate
    yield Row("second", f"{size}, page cache warm, {_MOST} readers", _KNOWN_COLD, "files/s", (stale,), NATIVE)
    _wait_forgotten(node, volume, target, order)
    roots = {NATIVE: native, STOKER_OVERLAY: target}
    orders = Orders(corpus)
    for root in roots.values():
        read_epoch(root, order, _MOST, len(order) * corpus.size)  # fills the page cache and is not counted
    states: dict[str, Callable[[], None]] = {"warm": lambda: None, "dropped": _drop_pages}
    for state, prepare in states.items():
        for readers in _READERS:
            case = f"{size}, page cache {state}, {readers} reader{'s' * (readers > 1)}"
            rates: dict[str, list[float]] = {system: [] for system in roots}
            for system in env.turns(f"second: {case}", roots):
                prepare()
                files = [path for path in orders.next() if path != next(iter(paths(corpus)))]
                rates[system].append(read_epoch(roots[system], files, readers, len(files) * corpus.size).rate)
            for system, samples in rates.items():
                yield Row("second", case, system, "files/s", tuple(samples), NATIVE)


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

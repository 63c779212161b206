"""What it costs to see which files pods open: readers with the observer and without, and the CPU that it uses."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.environment import Environment
from bench.measure import cpu_seconds
from bench.node import Node
from bench.readers import read_epoch
from bench.report import Row
from bench.sidecar import Switches
from bench.systems import cold_volume
from bench.workloads.epochs import Orders, counted
from stoker_api.dataset import MountMode

_READERS = (1, 4)
_ON, _OFF = "Stoker native", "Stoker native, observer off"
_BUDGETS = 6  # times longer than other measurements of CPU: five seconds' worth of the budget may be saved or owed
_SETTLE_SECONDS = 5.0  # for the first folders to be marked, and the budget's first half to be spent or kept


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for warm native readers on a node with an observer and on one without, in turns; and its CPU."""
    corpus = env.scale.switched
    with (
        env.corpus("observer", corpus) as prefix,
        env.node(name="on") as on,
        env.node(switches=Switches(observe=False), name="off") as off,
    ):
        roots = {_ON: _whole(on, prefix), _OFF: _whole(off, prefix)}
        orders = Orders(corpus)
        for root in roots.values():
            read_epoch(root, orders.next(), max(_READERS), corpus.total_bytes)  # fills the page cache
        for readers in _READERS:
            rates: dict[str, list[float]] = {system: [] for system in roots}
            case = f"page cache warm, {counted(readers)}"
            for system in env.turns(f"observer: {case}", roots):
                rates[system] += _rates(env, roots[system], orders, readers, corpus.total_bytes)
            for system, samples in rates.items():
                yield Row("observer", case, system, "files/s", tuple(samples), _OFF)
        yield from _cpu(env, on, roots[_ON], orders, corpus.total_bytes)


def _whole(node: Node, prefix: str) -> Path:
    volume, target = cold_volume(node, prefix)
    node.warm(volume)
    node.wait_mode(target, MountMode.NATIVE)
    time.sleep(_SETTLE_SECONDS)
    return target


def _rates(env: Environment, root: Path, orders: Orders, readers: int, size: int) -> Sequence[float]:
    """Read for as long as the duty cycle needs to be met in its mean, and return that mean."""
    start, files = time.monotonic(), 0
    seconds = 0.0
    while time.monotonic() - start < env.scale.idle_seconds:
        epoch = read_epoch(root, orders.next(), readers, size)
        files, seconds = files + epoch.files, seconds + epoch.seconds
    return (files / seconds,)


def _cpu(env: Environment, node: Node, root: Path, orders: Orders, size: int) -> Iterator[Row]:
    observer = node.sidecar.pids()["observer"]
    for case in ("4 readers of a whole version", "nobody reads"):
        env.say(f"observer: its CPU while {case}")
        start, before, files = time.monotonic(), cpu_seconds(observer), 0
        while time.monotonic() - start < _BUDGETS * env.scale.idle_seconds:
            if case == "nobody reads":
                time.sleep(env.scale.idle_seconds)
            else:
                files += read_epoch(root, orders.next(), 4, size).files
        seconds = time.monotonic() - start
        used = 100 * (cpu_seconds(observer) - before) / seconds
        yield Row("observer", case, "observer", "% of a core", (used,), note=f"{files:,} files in {seconds:.0f} s")

"""The cost of observing the files that pods open: the loss of readers, and the CPU."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.environment import Environment
from bench.errors import BenchError
from bench.measure import cpu_seconds, tree_cpu_seconds
from bench.node import Node
from bench.objects import paths
from bench.readers import read_epoch
from bench.report import Row
from bench.sidecar import Switches
from bench.spells import Loss, Moment, lost
from bench.steady_readers import SteadyReaders
from bench.systems import STOKER_NATIVE, whole_volume
from bench.workloads.epochs import counted

_READERS = (1, 4)
_BUDGETS = 6  # times longer than other measurements of CPU: the budget may be ahead or behind by five seconds
_SETTLE_SECONDS = 5.0  # seconds to mark the first folders, and to spend or save the budget's first half
_LOOK_SECONDS = 0.01
# Bytes of /proc/PID/fdinfo/N that show the first mark of a group, if there is one.
_FIRST_MARK = 400


def measure(env: Environment) -> Iterator[Row]:
    """Yield rows for warm native readers of a node with an observer.

    They are the loss of the readers, and the CPU compared with a node without an observer. Read rates of the two nodes
    are not compared, because the rate depends on the location of a file's pages.
    """
    corpus = env.scale.images
    with (
        env.corpus("observer", corpus) as prefix,
        env.node(name="on") as on,
        env.node(switches=Switches(observe=False), name="off") as off,
    ):
        root, _ = _whole(on, prefix), _whole(off, prefix)
        order = list(paths(corpus))
        read_epoch(root, order, max(_READERS), corpus.total_bytes)  # fills the page cache
        for readers in _READERS:
            yield from _steady(env, on, off, root, order, readers)
        yield from _idle(env, on)


def _whole(node: Node, prefix: str) -> Path:
    _, target = whole_volume(node, prefix)
    time.sleep(_SETTLE_SECONDS)
    return target


def _steady(env: Environment, on: Node, off: Node, root: Path, order: Sequence[str], readers: int) -> Iterator[Row]:
    """Read without a pause, and compare the spells of marks with the time around them."""
    case = f"page cache warm, {counted(readers)}"
    env.say(f"observer: spells, {case}")
    observer = on.sidecar.pids()["observer"]
    with SteadyReaders(root, order, readers) as reading:
        time.sleep(_SETTLE_SECONDS)
        own, all_on, all_off = cpu_seconds(observer), _cpu(on), _cpu(off)
        moments = _watch(reading, observer, _BUDGETS * env.scale.idle_seconds)
        seconds, files = moments[-1].seconds - moments[0].seconds, moments[-1].files - moments[0].files
        used = 100 * (cpu_seconds(observer) - own) / seconds
        more = _cpu(on) - all_on - (_cpu(off) - all_off)
    yield Row("observer", case, "observer", "% of a core", (used,), note=f"{files:,} files in {seconds:.0f} s")
    all_used = 100 * more / seconds
    yield Row("observer", case, "all processes, more than without", "% of a core in all", (all_used,))
    loss = lost(moments)
    if loss is None:
        env.say("observer: too few spells of marks to tell what they cost")
        return
    cores = os.cpu_count() or 1
    taken = all_used / cores if readers >= cores else 0.0
    note = _in_words(loss, taken)
    yield Row("observer", case, STOKER_NATIVE, "% of throughput lost", (loss.percent + taken,), note=note)


def _cpu(node: Node) -> float:
    return tree_cpu_seconds(node.sidecar.pid)


def _in_words(loss: Loss, taken: float) -> str:
    told = f"{loss.percent:.2f} +- {loss.error:.2f} by {loss.spells} spells; marks on {loss.marked:.1f} % of the time"
    used = f"; {taken:.2f} more for CPU that readers want, part of which is counted twice" if taken else ""
    calm = f"; the same a second later, where there is nothing: {loss.calm:.2f}" if loss.calm is not None else ""
    return told + used + calm


def _watch(reading: SteadyReaders, observer: int, seconds: float) -> Sequence[Moment]:
    """Sample the number of read files and the state of marks, a hundred times a second."""
    group = os.open(_group(observer), os.O_RDONLY | os.O_CLOEXEC)
    try:
        moments: list[Moment] = []
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end or len(moments) < 2:
            marked = b"fanotify ino:" in os.pread(group, _FIRST_MARK, 0)
            moments.append(Moment(now, reading.files(), marked))
            time.sleep(_LOOK_SECONDS)
        return moments
    finally:
        os.close(group)


def _group(pid: int) -> Path:
    """Return the file that shows the marks of a process's fanotify group. Raises BenchError if it has none."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        if "fanotify" in str(descriptor.readlink()):
            return Path(f"/proc/{pid}/fdinfo/{descriptor.name}")
    raise BenchError("the observer watches nothing: does this kernel report opened files?")


def _idle(env: Environment, node: Node) -> Iterator[Row]:
    observer = node.sidecar.pids()["observer"]
    env.say("observer: its CPU while nobody reads")
    start, before = time.monotonic(), cpu_seconds(observer)
    time.sleep(_BUDGETS / 2 * env.scale.idle_seconds)
    used = 100 * (cpu_seconds(observer) - before) / (time.monotonic() - start)
    yield Row("observer", "nobody reads", "observer", "% of a core", (used,))

"""What the sidecar does while pods read natively: nothing, and this counts it."""

import time
from collections.abc import Iterator, Sequence

from bench.bed import Bed
from bench.measure import tree_cpu_seconds
from bench.node import Node
from bench.readers import read_epoch
from bench.report import Row
from bench.subjects import STOKER, cold_volume
from bench.workloads.epochs import Orders
from stoker_api.dataset import MountMode

_READERS = 2
_SETTLE_SECONDS = 5.0  # for the last words about the dataset that just became whole


def measure(bed: Bed) -> Iterator[Row]:
    """Rows for a while with readers, for one before and one after it without, and for what the readers cost."""
    corpus = bed.scale.switched
    with bed.corpus("idle", corpus) as prefix, bed.node() as node:
        volume, target = cold_volume(node, prefix)
        node.warm(volume)
        node.wait_mode(target, MountMode.NATIVE)
        time.sleep(_SETTLE_SECONDS)
        quiet = [_while_quiet(bed, node)]
        bed.say("idle: warm pods read")
        orders, files = Orders(corpus), 0
        start, before = time.monotonic(), tree_cpu_seconds(node.sidecar.pid)
        while time.monotonic() - start < bed.scale.idle_seconds:
            files += read_epoch(target, orders.next(), _READERS, corpus.total_bytes).files
        seconds, used = time.monotonic() - start, tree_cpu_seconds(node.sidecar.pid) - before
        quiet.append(_while_quiet(bed, node))
    case, wait = f"{_READERS} readers of a whole version", bed.scale.idle_seconds
    yield Row("idle", case, STOKER, "CPU s", (used,), note=f"{files:,} files in {seconds:.0f} s")
    yield Row("idle", "nobody reads", STOKER, "CPU s", tuple(quiet), note=f"{wait:.0f} s each, before and after")
    yield Row("idle", case, STOKER, "CPU s more than when nobody reads", (more(used, seconds, quiet, wait),))


def more(used: float, seconds: float, quiet: Sequence[float], wait: float) -> float:
    """CPU that was used beyond what the same time costs when nobody reads, at the most that was seen of that. Pure."""
    return max(0.0, used - max(quiet) * seconds / wait)


def _while_quiet(bed: Bed, node: Node) -> float:
    bed.say("idle: nobody reads")
    before = tree_cpu_seconds(node.sidecar.pid)
    time.sleep(bed.scale.idle_seconds)
    return tree_cpu_seconds(node.sidecar.pid) - before
